"""Delay every reply of another loopback server: NCBI's latency, for benchmarks.

python scripts/benchmarks/serving/slow_proxy.py --to http://127.0.0.1:8081 --port 8082 --delay 0.5
"""

from __future__ import annotations

import argparse
import asyncio

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def create_proxy(target: str, delay_s: float) -> Starlette:
    client = httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=256))

    async def forward(request: Request) -> Response:
        url = f"{target.rstrip('/')}{request.url.path}?{request.url.query}".rstrip("?")
        body = await request.body()
        headers = {"content-type": request.headers.get("content-type", "")} if body else {}
        reply, _ = await asyncio.gather(
            client.request(request.method, url, content=body, headers=headers), asyncio.sleep(delay_s)
        )
        return Response(reply.content, reply.status_code, media_type=reply.headers.get("content-type"))

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.5, help="seconds")
    args = parser.parse_args()
    uvicorn.run(create_proxy(args.to, args.delay), host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
