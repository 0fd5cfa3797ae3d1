"""Serve ``/v1/jobs``: the progress of a key's jobs, and their cancellation."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.services import Services

router = APIRouter()


@router.get("/v1/jobs")
async def list_jobs(request: Request) -> Response:
    """Return the key's jobs, newest first."""
    services: Services = request.app.state.services
    found = services.retrieval.jobs.of(request.state.owner)
    return JSONResponse({"object": "list", "data": [job.as_dict() for job in found]})


@router.get("/v1/jobs/{job_id}")
async def get_job(request: Request, job_id: str) -> Response:
    services: Services = request.app.state.services
    return JSONResponse(services.retrieval.jobs.get(job_id, request.state.owner).as_dict())


@router.delete("/v1/jobs/{job_id}")
async def cancel_job(request: Request, job_id: str) -> Response:
    """Cancel a job; 202 where it runs and stops at its next step."""
    services: Services = request.app.state.services
    job = services.retrieval.jobs.cancel(job_id, request.state.owner)
    return JSONResponse(job.as_dict(), status_code=200 if job.has_ended else 202)
