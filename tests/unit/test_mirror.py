"""The tree of unit tests mirrors that of the code: a module with logic has a test file of its name, or a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
PACKAGES = ("server", "retrieval", "models")

# Test files that show what these modules do, as parts of a larger whole or through the seam that they implement.
THROUGH: dict[str, tuple[str, ...]] = {
    "tests/http/test_egress_proof.py": ("server/cli/egress.py",),
    "tests/http/test_review_documents.py": ("server/api/reviews/routes.py", "server/api/reviews/schemas.py"),
    "tests/http/test_messages.py": ("server/api/messages/routes.py",),
    "tests/http/test_mcp.py": (
        "server/api/mcp/endpoint.py",
        "server/api/mcp/own_routes.py",
        "server/api/mcp/tools.py",
        "server/serving/mcp_stdio.py",
    ),
    "tests/http/test_site_tools.py": ("server/wiring/site_tools.py",),
    "tests/http/test_vector_stores.py": (
        "server/api/answers/file_search.py",
        "server/api/files/files.py",
        "server/api/files/schemas.py",
        "server/api/files/vector_stores.py",
        "server/jobs/attribute_filters.py",
        "server/jobs/stored_files.py",
        "server/jobs/vector_stores.py",
    ),
    "tests/http/test_stored_responses.py": (
        "server/api/answers/pages.py",
        "server/api/responses/background.py",
        "server/api/responses/conversations.py",
        "server/api/responses/state.py",
        "server/api/responses/stored.py",
    ),
    "tests/contract/test_stored_responses_contract.py": ("server/state/responses.py",),
    "tests/contract/test_records_contract.py": ("retrieval/storage/records.py",),
    "tests/unit/server/exports/test_exports.py": ("server/exports/formats.py", "server/exports/report.py"),
    "tests/unit/server/methods/clinfo/test_generated.py": ("server/methods/clinfo/written.py",),
    "tests/unit/server/methods/genegpt/test_judging.py": ("server/methods/genegpt/lookups.py",),
    "tests/unit/server/methods/shared/support/test_method.py": ("server/methods/shared/support/strict.py",),
    "tests/unit/retrieval/lexical/test_tantivy_index.py": ("retrieval/lexical/tantivy_files.py",),
    "tests/unit/models/test_catalog.py": ("models/card.py",),
    "tests/unit/models/engines/test_chat_template.py": (
        "models/engines/template_child.py",
        "models/engines/template_process.py",
    ),
    "tests/unit/server/methods/clinfo/test_method.py": ("server/methods/clinfo/report.py",),
    "tests/unit/server/methods/clinfo/test_screening.py": ("server/methods/clinfo/literature.py",),
    "tests/unit/retrieval/corpus/search/test_several_encoders.py": ("retrieval/corpus/namespaces/namespace.py",),
    "tests/contract/test_engine_contract.py": ("models/engines/base.py",),
    "tests/contract/test_lexical_contract.py": ("retrieval/lexical/base.py",),
    "tests/contract/test_passage_store_contract.py": (
        "retrieval/corpus/store/postgres_reader.py",
        "retrieval/corpus/store/postgres_stores.py",
        "retrieval/corpus/store/postgres_writer.py",
    ),
    "tests/contract/test_vector_index_contract.py": (
        "retrieval/index/base.py",
        "retrieval/index/pgvector/index.py",
        "retrieval/index/pgvector/indices.py",
    ),
    "tests/gpu/test_index_gpu.py": ("retrieval/index/backends/faiss_gpu.py",),
    "tests/http/test_command_line.py": ("server/cli/ask.py", "server/cli/doctor.py", "server/cli/options.py"),
    "tests/http/test_command_line_corpora.py": ("server/cli/namespaces.py",),
    "tests/http/test_decisions.py": ("server/api/retrieval/decisions.py",),
    "tests/http/test_draining.py": ("server/serving/run.py",),
    "tests/http/test_egress_service.py": ("retrieval/ncbi/client/service.py",),
    "tests/http/test_egress_modes.py": ("server/cli/gateway.py",),
    "tests/http/test_keys.py": ("server/cli/keys.py", "server/wiring/state.py"),
    "tests/http/test_namespace_jobs.py": (
        "server/api/retrieval/documents.py",
        "server/api/retrieval/schemas.py",
        "server/jobs/corpus_changes.py",
    ),
    "tests/http/test_namespaces.py": ("server/api/retrieval/namespaces.py",),
    "tests/http/test_openai_chat.py": ("server/api/openai/chat.py",),
    "tests/http/test_openai_completions.py": ("server/api/openai/completions.py",),
    "tests/http/test_openai_embeddings.py": ("server/api/retrieval/embeddings.py",),
    "tests/http/test_openai_errors.py": ("server/api/openai/models.py",),
    "tests/http/test_page.py": ("server/web/routes.py",),
    "tests/http/test_probes.py": ("server/api/system.py", "server/version.py"),
    "tests/http/test_search.py": ("server/api/retrieval/search.py",),
    "tests/http/test_verify.py": ("server/api/retrieval/verify.py",),
    "tests/unit/server/evidence/test_verifier.py": ("server/settings/verifier.py",),
    "tests/http/test_stored_documents.py": ("server/api/retrieval/stored_documents.py",),
    "tests/unit/server/state/test_jobs.py": ("server/state/job_tables.py",),
    "tests/unit/models/encoders/transformers_encoder/test_encoder.py": ("models/encoders/texts.py",),
    "tests/unit/models/encoders/remote_encoder/test_encoder.py": (
        "models/encoders/remote_encoder/connection.py",
        "models/encoders/remote_encoder/references.py",
    ),
    "tests/unit/models/engines/transformers_engine/test_model_loading.py": ("models/torch_runtime/devices.py",),
    "tests/unit/models/engines/vllm_engine/test_endpoints.py": ("models/engines/vllm_engine/openai_layer.py",),
    "tests/unit/models/engines/vllm_engine/test_engine.py": ("models/engines/vllm_engine/compat.py",),
    "tests/unit/models/engines/vllm_engine/test_stats.py": ("models/types.py",),
    "tests/unit/retrieval/corpus/namespaces/test_registry.py": (
        "retrieval/corpus/ingest/add.py",
        "retrieval/corpus/items.py",
        "retrieval/corpus/namespaces/settings.py",
        "retrieval/corpus/namespaces/verify.py",
        "retrieval/corpus/namespaces/dense.py",
    ),
    "tests/unit/retrieval/corpus/readers/test_registry.py": ("retrieval/corpus/readers/guess.py",),
    "tests/unit/retrieval/corpus/readers/test_isolated.py": ("retrieval/corpus/readers/child.py",),
    "tests/unit/retrieval/corpus/readers/test_pdf_pages.py": ("retrieval/corpus/readers/pdf_child.py",),
    "tests/unit/retrieval/corpus/readers/test_readers.py": (
        "retrieval/corpus/readers/json_corpora.py",
        "retrieval/corpus/readers/ncbi_xml.py",
    ),
    "tests/unit/retrieval/corpus/search/test_searcher.py": ("retrieval/corpus/search/ranking.py",),
    "tests/unit/retrieval/corpus/store/test_writer.py": ("retrieval/corpus/store/schema.py", "retrieval/passages.py"),
    "tests/unit/retrieval/formats/test_pmc_jats.py": ("retrieval/formats/xml_records.py",),
    "tests/unit/retrieval/formats/test_pubmed_xml.py": ("retrieval/formats/items.py",),
    "tests/unit/retrieval/gateway/blast/test_blast.py": (
        "retrieval/gateway/blast/results/formats.py",
        "retrieval/gateway/blast/results/placing.py",
        "retrieval/gateway/blast/results/pages.py",
    ),
    "tests/unit/retrieval/gateway/citations/test_pubmed_citation.py": ("retrieval/gateway/citations/citation.py",),
    "tests/unit/retrieval/gateway/eutils/test_forms.py": ("retrieval/gateway/eutils/elink.py",),
    "tests/unit/retrieval/gateway/eutils/test_esearch.py": ("retrieval/gateway/query/conditions.py",),
    "tests/unit/retrieval/gateway/importing/test_registry.py": ("retrieval/formats/tables.py",),
    "tests/unit/retrieval/gateway/importing/test_run.py": ("retrieval/gateway/store/writer.py",),
    "tests/unit/retrieval/gateway/store/test_reader.py": ("retrieval/gateway/store/indexing.py",),
    "tests/unit/retrieval/gateway/test_bio_entrez.py": (
        "retrieval/gateway/documents/docsum_xml.py",
        "retrieval/gateway/documents/literature.py",
        "retrieval/gateway/documents/taxonomy.py",
        "retrieval/gateway/documents/variation.py",
        "retrieval/gateway/eutils/efetch.py",
        "retrieval/gateway/http_reply.py",
        "retrieval/storage/database.py",
    ),
    "tests/unit/retrieval/graph/linking/dictionary_lookup/test_dictionary.py": (
        "retrieval/graph/linking/dictionary_lookup/identifiers.py",
        "retrieval/graph/linking/dictionary_lookup/names.py",
        "retrieval/graph/linking/dictionary_lookup/normalize.py",
    ),
    "tests/unit/retrieval/graph/linking/test_linker.py": (
        "retrieval/graph/linking/model_extraction.py",
        "retrieval/graph/types.py",
    ),
    "tests/unit/retrieval/graph/loaders/test_loaders.py": (
        "retrieval/graph/loaders/json_files.py",
        "retrieval/graph/loaders/reading.py",
        "retrieval/graph/loaders/kgx.py",
        "retrieval/graph/loaders/tables.py",
        "retrieval/graph/spoke/reply.py",
    ),
    "tests/unit/retrieval/graph/store/test_build.py": (
        "retrieval/graph/store/files.py",
        "retrieval/graph/store/writer.py",
    ),
    "tests/unit/retrieval/index/segments/test_durability.py": ("retrieval/index/segments/manifest.py",),
    "tests/unit/retrieval/index/segments/test_index.py": ("retrieval/index/segments/storage.py",),
    "tests/unit/retrieval/ncbi/replies/test_biopython_replies.py": ("retrieval/ncbi/replies/sequences.py",),
    "tests/unit/retrieval/ncbi/replies/test_parse.py": ("retrieval/ncbi/replies/summaries.py",),
    "tests/unit/server/audit/test_log.py": ("server/audit/verification.py",),
    "tests/unit/server/jobs/test_queue.py": ("server/jobs/uploads.py",),
    "tests/unit/server/methods/i_medrag/test_method.py": ("server/methods/i_medrag/sub_answers.py",),
    "tests/unit/server/methods/medrag/test_method.py": (
        "server/methods/medrag/chain_of_thought.py",
        "server/methods/medrag/context.py",
        "server/methods/shared/passages.py",
        "server/methods/medrag/report.py",
    ),
    "tests/unit/server/methods/weiseeule/test_method.py": (
        "server/evidence/keywords.py",
        "server/methods/weiseeule/library.py",
        "server/methods/weiseeule/recommend.py",
        "server/methods/weiseeule/request.py",
    ),
    "tests/unit/server/settings/test_loading.py": (
        "server/settings/base.py",
        "server/settings/egress.py",
        "server/settings/model.py",
        "server/settings/schema.py",
    ),
    "tests/unit/server/wiring/test_shared_passages.py": (
        "retrieval/corpus/namespaces/follower.py",
        "retrieval/index/pgvector/token_store.py",
    ),
    "tests/unit/server/test_every_route.py": ("server/app.py", "server/wiring/bootstrap.py"),
    "tests/unit/server/test_access_control.py": ("server/auth/rate_limits.py",),
    "tests/unit/server/methods/shared/test_refused_methods.py": ("server/methods/base.py",),
    "tests/unit/retrieval/gateway/blast/test_request.py": ("retrieval/gateway/blast/parameters.py",),
    "tests/unit/retrieval/gateway/eutils/test_eutils.py": ("retrieval/gateway/eutils/esummary.py",),
}


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path for path in sorted((ROOT / package).rglob("*.py")) if path.name != "__init__.py")


def has_logic(source: str) -> bool:
    """Whether some function has more than one statement.

    Assignments to ``self`` and the call of the base class in ``__init__`` are no logic: they only hold values.
    """
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(_statements(node)) > 1
        for node in ast.walk(ast.parse(source))
    )


def _statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    found = [
        node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return [node for node in found if not _holds_value(node)] if function.name == "__init__" else found


def _holds_value(node: ast.stmt) -> bool:
    return ast.unparse(node).startswith(("self.", "super().__init__("))


def own_test_of(module: Path) -> Path:
    """The test file of the module's own name."""
    return UNIT / module.relative_to(ROOT).with_name(f"test_{module.name}")


def test_every_module_with_logic_has_its_test_or_a_reason() -> None:
    """A new module comes with a test file of its name, or with a line in THROUGH."""
    named = {module for modules in THROUGH.values() for module in modules}
    without = [
        path for path in modules() if not own_test_of(path).exists() and has_logic(path.read_text(encoding="utf-8"))
    ]

    assert [str(path.relative_to(ROOT)) for path in without if str(path.relative_to(ROOT)) not in named] == []


def test_no_reason_is_out_of_date() -> None:
    """Each line names a test file that exists and modules that exist, have logic, and have no test of their name."""
    named = [module for modules in THROUGH.values() for module in modules]
    gone = [name for name in (*THROUGH, *named) if not (ROOT / name).exists()]
    here = [ROOT / name for name in named if name not in gone]
    idle = [path for path in here if own_test_of(path).exists() or not has_logic(path.read_text(encoding="utf-8"))]

    assert (gone, [str(path.relative_to(ROOT)) for path in idle]) == ([], [])
    assert len(named) == len(set(named))


def test_every_test_folder_mirrors_a_folder_of_the_code() -> None:
    """A test is found where its module stands."""
    folders = {path.parent for package in PACKAGES for path in (UNIT / package).rglob("test_*.py")}

    assert [str(path) for path in sorted(folders) if not (ROOT / path.relative_to(UNIT)).is_dir()] == []


def test_what_counts_as_logic() -> None:
    """Protocols, constants, single expressions and plain constructors do not."""
    assert not has_logic("A = 1\nclass P(Protocol):\n    def f(self) -> int:\n        '''Return.'''\n        ...\n")
    assert not has_logic(
        "class A:\n    def __init__(self):\n        super().__init__()\n        self.a = 1\n        self.b = 2\n"
    )
    assert has_logic("def f(x):\n    y = x\n    return y\n")
