"""Ten thousand addresses that a model wrote: what is called is rebuilt from parts, and goes to the one base."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from attack_urls import urls
from ncbi_server import Answer, NcbiServer, Seen

from models.decoding.types import Call
from server.evidence.ncbi import NcbiSessions
from server.methods.base import AnswerRequest
from server.methods.genegpt.method import GeneGptOptions
from server.settings.egress import NcbiSettings
from server.settings.model import ModelSettings
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services

MANY = 10_000
_FOUND = {"header": {}, "esearchresult": {"count": "0", "retmax": "0", "retstart": "0", "idlist": []}}


@asynccontextmanager
async def _trap() -> AsyncIterator[tuple[str, list[str]]]:
    """An address on both loopbacks that nobody may reach; who did, is in the list."""
    reached: list[str] = []

    async def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(str(writer.get_extra_info("sockname")))
        writer.close()

    first = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(meet, "::1", port)
    async with first, second:
        yield f"127.0.0.1:{port}", reached


def _answer_with_redirects(trap: str) -> object:
    def answer(seen: Seen) -> Answer:
        if any("7" in value for value in seen.params.values()):
            return Answer(status=302, headers={"Location": f"http://{trap}/{seen.path}"})
        return Answer(body=json.dumps(_FOUND).encode(), headers={"Content-Type": "application/json"})

    return answer


async def test_no_written_address_reaches_another_place(tmp_path: Path) -> None:
    """Neither by its spelling nor by a redirect; what reaches the base are the five programs with known parameters."""
    script = tmp_path / "script.json"
    script.write_text("[]")
    async with _trap() as (trap, reached), NcbiServer(_answer_with_redirects(trap)) as ncbi:  # type: ignore[arg-type]
        settings = Settings(
            model=ModelSettings(engine="scripted", script=script),
            ncbi=NcbiSettings(eutils_url=ncbi.url, blast_url=ncbi.url),
        )
        services = build_services(settings)
        assert services.egress is not None
        access = NcbiSessions(services.egress, 1200)
        options = GeneGptOptions(mask="000000", max_calls=10)
        statuses: dict[str, int] = {}
        for number, url in enumerate(urls(trap, MANY, seed=20)):
            session = access.open(AnswerRequest(request_id=f"r{number}", prompt="q"), "q", options, "full")
            reply = await session(Call(url, 0))
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
        await services.close()

    assert reached == []
    assert sum(statuses.values()) == MANY
    assert statuses["refused"] > MANY // 2
    assert len(ncbi.seen) > MANY // 20
    paths = {seen.path for seen in ncbi.seen}
    assert paths <= {f"/entrez/eutils/{name}.fcgi" for name in ("esearch", "esummary", "efetch", "elink", "einfo")} | {
        "/blast/Blast.cgi"
    }
    assert not [
        seen for seen in ncbi.seen if any(name.lower() in ("url", "base", "filter_url") for name in seen.params)
    ]
