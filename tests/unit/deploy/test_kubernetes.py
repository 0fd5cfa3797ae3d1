"""The manifests for several servers: what Kubernetes takes, and what they promise about pods, networks and scaling."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from scale_out_files import EXAMPLE, FOLDER, MANIFESTS, WITH_EGRESS, container, manifest, objects, of_kind, pod

from server.settings.loading import load_settings

OLDEST, NEWEST = "1.32", "1.37"
PODS = ("server", "replica")


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_what_its_schema_says(version: str) -> None:
    """No field that this version of Kubernetes does not have."""
    schemas = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for found in (*objects(), *objects(WITH_EGRESS)):
        # What patches the servers is a part of an object.
        if found["metadata"]["name"] != "server" or "selector" in found["spec"]:
            schemas.validate(found, version, strict=True)


def test_every_manifest_is_in_the_base_but_the_example() -> None:
    """Each has an API, a kind, a name and the one namespace; none is there twice."""
    base = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    names = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml", EXAMPLE.name}
    found = list(objects())
    ids = [(it["kind"], it["metadata"]["name"]) for it in found]

    assert sorted(base["resources"]) == sorted(names)
    assert all(
        it["apiVersion"] and (it["kind"] == "Namespace" or it["metadata"]["namespace"] == "arrowhead") for it in found
    )
    assert len(ids) == len(set(ids))
    assert {one["name"] for one in base["images"]} == {container(name)["image"] for name in PODS}


def test_the_base_can_be_built() -> None:
    """By kubectl, with the images that it names."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    command = ["kubectl", "kustomize", str(MANIFESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert "image: registry.example.org/arrowhead:0.1.0-cpu" in done.stdout
    assert "image: registry.example.org/arrowhead:0.1.0\n" in done.stdout


def _with_egress(kind: str, name: str) -> dict[str, Any]:
    (found,) = [it for it in objects(WITH_EGRESS) if (it["kind"], it["metadata"]["name"]) == (kind, name)]
    return found


def test_one_egress_service_has_the_way_to_ncbi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod, as bounded as a server's; servers reach it with a certificate, and only it reaches out."""
    service = _with_egress("StatefulSet", "egress")["spec"]
    of = service["template"]["spec"]
    (the,) = of["containers"]
    labels = service["template"]["metadata"]["labels"]
    out = _with_egress("NetworkPolicy", "egress")["spec"]
    way = _with_egress("NetworkPolicy", "servers-to-egress")["spec"]

    assert service["replicas"] == 1 and service["selector"]["matchLabels"] == labels
    assert of["securityContext"] == pod("server")["securityContext"]
    assert the["securityContext"] == container("server")["securityContext"]
    assert the["args"] == ["egress", "serve"] and {"cpu", "memory"} <= set(the["resources"]["limits"])
    assert {one["name"] for one in the["volumeMounts"]} <= {one["name"] for one in of["volumes"]} | {"data"}
    assert out["podSelector"]["matchLabels"] == _with_egress("Service", "egress")["spec"]["selector"] == labels
    assert way["egress"][0]["to"] == [{"podSelector": {"matchLabels": labels}}] and way["policyTypes"] == ["Egress"]
    assert way["podSelector"] == out["ingress"][0]["from"][0]["podSelector"]
    for name, value in _with_egress("ConfigMap", "egress-settings")["data"].items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "config.toml"
    config.write_text(_with_egress("Secret", "egress-config")["stringData"]["config.toml"])
    settings = load_settings(config=config)
    assert (settings.egress.mode, settings.egress_service.host) == ("ncbi", "0.0.0.0")
    mounted = {one["mountPath"] for one in the["volumeMounts"]}
    files = (settings.egress_service.certificate, settings.egress_service.client_ca_file)
    assert all(one is not None and str(one.parent) in mounted for one in files)


def test_the_servers_show_the_service_a_certificate() -> None:
    """What patches them names objects that the base has, the service's port, and files of a mounted secret."""
    data = _with_egress("ConfigMap", "server-settings")["data"]
    url = urlsplit(data["ARROWHEAD_EGRESS__SERVICE_URL"])
    part = _with_egress("StatefulSet", "server")["spec"]["template"]["spec"]
    (mount,) = part["containers"][0]["volumeMounts"]

    assert manifest("ConfigMap", "server-settings") and part["containers"][0]["name"] == container("server")["name"]
    assert (url.scheme, url.hostname) == ("https", _with_egress("Service", "egress")["metadata"]["name"])
    assert url.port == _with_egress("Service", "egress")["spec"]["ports"][0]["port"]
    files = [value for name, value in data.items() if name.endswith(("FILE", "CERTIFICATE", "CERTIFICATE_KEY"))]
    assert len(files) == 3 and all(value.startswith(f"{mount['mountPath']}/") for value in files)
    assert _with_egress("Secret", part["volumes"][0]["secret"]["secretName"])["type"] == "kubernetes.io/tls"


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_as_little_as_it_needs(name: str) -> None:
    """What the profile "restricted" asks, a root that cannot be written, volumes where something is written."""
    of, the = pod(name), container(name)
    places = {one["mountPath"]: one.get("readOnly", False) for one in the["volumeMounts"]}

    assert of["securityContext"]["runAsNonRoot"] and of["securityContext"]["runAsUser"] == 10001
    assert of["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert the["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert of["automountServiceAccountToken"] is False
    assert places["/models"] is True and places["/data"] is False and places["/tmp"] is False
    assert {one["name"] for one in the["volumeMounts"]} <= {one["name"] for one in of["volumes"]} | {"data"}
    assert {"cpu", "memory"} <= set(the["resources"]["limits"])
    assert not any("hostPath" in one for one in of["volumes"])
    assert (
        manifest("Namespace", "arrowhead")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )


def test_each_server_has_a_volume_of_its_own_and_only_replicas_have_gpus() -> None:
    (claim,) = manifest("StatefulSet", "server")["spec"]["volumeClaimTemplates"]

    assert claim["metadata"]["name"] == "data" and claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert container("replica")["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert "nvidia.com/gpu" not in container("server")["resources"]["limits"]


def test_probes_ask_what_they_can(tmp_path: Path) -> None:
    """Alive is /health, which needs no key; ready is /ready with the operator's key, read from the settings."""
    the = container("server")
    script = the["readinessProbe"]["exec"]["command"][2]
    mounted = {one["name"]: one["mountPath"] for one in the["volumeMounts"]}

    assert the["livenessProbe"]["httpGet"]["path"] == "/health"
    assert the["startupProbe"]["exec"] == the["readinessProbe"]["exec"]
    assert f"{mounted['config']}/config.toml" in script and "/ready" in script
    compile(script, "probe", "exec")
    assert container("replica")["readinessProbe"]["httpGet"]["path"] == "/health"


def test_nothing_reaches_out_but_what_is_named() -> None:
    """All is denied; servers reach the router, the database and names, the router replicas, replicas nothing."""
    policies = of_kind("NetworkPolicy")
    deny = policies["deny-all"]["spec"]
    servers = policies["servers"]["spec"]
    labels = {name: manifest("StatefulSet", name)["spec"]["template"]["metadata"]["labels"] for name in PODS}

    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert all(set(one["spec"]["policyTypes"]) == {"Ingress", "Egress"} for one in policies.values())
    assert "egress" not in policies["replicas"]["spec"]
    assert servers["podSelector"]["matchLabels"] == labels["server"]
    assert policies["replicas"]["spec"]["podSelector"]["matchLabels"] == labels["replica"]
    assert [[port["port"] for port in rule["ports"]] for rule in servers["egress"]] == [[8000], [5432], [53, 53]]
    router = policies["router"]["spec"]
    assert servers["egress"][0]["to"] == [{"podSelector": router["podSelector"]}]
    assert router["egress"][0]["to"] == [{"podSelector": {"matchLabels": labels["replica"]}}]
    assert policies["replicas"]["spec"]["ingress"][0]["from"][0] == {"podSelector": router["podSelector"]}
    assert all(rule.get("to") for rule in servers["egress"])
    assert all(one.get("from") for name in PODS for one in policies[f"{name}s"]["spec"]["ingress"])


def test_services_and_budgets_select_pods_that_there_are() -> None:
    labels = {name: manifest("StatefulSet", name)["spec"]["template"]["metadata"]["labels"] for name in PODS}
    services, budgets = of_kind("Service"), of_kind("PodDisruptionBudget")

    assert services["arrowhead"]["spec"]["selector"] == labels["server"]
    for name in PODS:
        assert services[f"{name}s"]["spec"] | {"ports": []} == {
            "clusterIP": "None", "selector": labels[name], "ports": []
        }  # fmt: skip
        assert manifest("StatefulSet", name)["spec"]["serviceName"] == f"{name}s"
        assert manifest("StatefulSet", name)["spec"]["selector"]["matchLabels"] == labels[name]
        assert budgets[f"{name}s"]["spec"]["selector"]["matchLabels"] == labels[name]
        assert budgets[f"{name}s"]["spec"]["maxUnavailable"] == 1


def test_the_router_has_a_place_for_each_replica_that_may_start() -> None:
    """Under the name of the service that has the addresses of the pods; the servers name the router."""
    most = manifest("HorizontalPodAutoscaler", "replicas")["spec"]["maxReplicas"]
    text = (MANIFESTS / "router.cfg").read_text()
    ((places, service),) = re.findall(r"^  server-template \S+ (\d+) (\S+):8000 ", text, re.MULTILINE)
    url = urlsplit(manifest("ConfigMap", "server-settings")["data"]["ARROWHEAD_MODEL__URL"])

    assert int(places) == most and manifest("Service", service)["spec"]["clusterIP"] == "None"
    assert url.hostname == "router" and url.port == manifest("Service", "router")["spec"]["ports"][0]["port"]
    assert "bind :8000" in text


def test_the_router_has_as_little_as_it_needs() -> None:
    """Its file alone, as the base makes it; no user but its own."""
    of = manifest("Deployment", "router")["spec"]["template"]["spec"]
    (the,) = of["containers"]
    (made,) = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["configMapGenerator"]

    assert of["securityContext"]["runAsNonRoot"] and not of["automountServiceAccountToken"]
    assert the["securityContext"] == container("server")["securityContext"]
    assert of["volumes"] == [{"name": "config", "configMap": {"name": made["name"]}}]
    assert the["args"][-1] == f"{the['volumeMounts'][0]['mountPath']}/{made['files'][0]}"
    assert {"cpu", "memory"} <= set(the["resources"]["limits"])


def _metrics(name: str) -> list[str]:
    found: list[dict[str, Any]] = manifest("HorizontalPodAutoscaler", name)["spec"]["metrics"]
    return [each["pods"]["metric"]["name"] for each in found]


def _rules() -> list[dict[str, Any]]:
    return list(yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"])


def _series(name: str) -> list[str]:
    """The patterns of the series that the adapter gives under this name."""
    found = []
    for rule in _rules():
        (pattern,) = re.findall(r'__name__=~"([^"]+)"', rule["seriesQuery"])
        if rule.get("name", {}).get("as", name) == name and (rule.get("name") or re.fullmatch(pattern, name)):
            found.append(pattern)
    return found


def test_the_servers_scale_by_what_they_export(exported: dict[str, set[str]]) -> None:
    for name in _metrics("servers"):
        assert len(_series(name)) == 1 and name in exported
    assert manifest("HorizontalPodAutoscaler", "servers")["spec"]["scaleTargetRef"]["name"] == "server"


def test_the_replicas_scale_by_what_vllm_exports() -> None:
    """By its source, which the installed package has."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        pytest.skip("the vLLM package is not installed")
    source = (Path(found.origin).parent / "v1" / "metrics" / "loggers.py").read_text()
    for name in _metrics("replicas"):
        (pattern,) = _series(name)
        assert f'name="{pattern.strip("^$")}"' in source
        assert re.fullmatch(r"[a-z_]+", name)
    assert manifest("HorizontalPodAutoscaler", "replicas")["spec"]["scaleTargetRef"]["name"] == "replica"
