"""Choose where the state lies that several servers can share: API keys, rate limits, traces and jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrieval.storage.records import Records, SqliteDatabase
from server.auth.authentication import ApiKeyLookup, FileKeyStore
from server.auth.keys import KeyStore
from server.auth.rate_limits import LocalRateLimiter, RateLimiter
from server.jobs.job_folder import JobFolder
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import JobLimits, JobQueue
from server.jobs.uploads import Uploads
from server.settings.loading import keys_file, namespaces_dir
from server.settings.schema import Settings
from server.state.database import Database, PassageDatabase
from server.state.jobs import JobServer, PostgresJobQueue
from server.state.keys import PostgresKeyStore, PostgresRateLimiter
from server.state.responses import StoredResponses, read_seal
from server.state.traces import PostgresTraceStore, TraceBounds
from server.traces import MemoryTraceStore, TraceFile, TraceStore

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


@dataclass(frozen=True, slots=True)
class AnswerState:
    """Hold what answers leave behind; ``closers`` run at shutdown, last one first."""

    rates: RateLimiter
    traces: TraceStore
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()


def open_database(settings: Settings) -> Database | None:
    """Return the database with its tables up to date, None where the settings name none.

    Raises:
        SettingsInvalid: the libraries of the database are not installed.
        STATE_UNAVAILABLE: the database does not answer, or refuses.
    """
    of = settings.state
    if of.url is None:
        return None
    database = Database(of.url.get_secret_value())
    database.migrate()
    return database


def open_passage_database(settings: Settings, database: Database | None) -> PassageDatabase | None:
    """Return the database of shared namespaces, None where they are files of this server."""
    if database is None or settings.retrieval.storage != "postgresql":
        return None
    return PassageDatabase(database)


def open_key_store(settings: Settings, database: Database | None) -> KeyStore:
    """Open the keys of the database, or of the file where there is no database."""
    return FileKeyStore(keys_file(settings)) if database is None else PostgresKeyStore(database)


def open_key_lookup(settings: Settings, database: Database | None) -> ApiKeyLookup:
    """Open the look-up of the settings' keys and of their key store.

    Raises:
        KeyStoreError: the store exists and cannot be read.
    """
    secrets = [key.get_secret_value() for key in settings.server.api_keys]
    return ApiKeyLookup(secrets, open_key_store(settings, database))


def open_answer_state(settings: Settings, database: Database | None) -> AnswerState:
    """Open rate limits and traces, in the database or in the memory of this process."""
    of = settings.traces
    file = TraceFile(of.dir) if of.dir else None
    if database is None:
        in_memory = MemoryTraceStore(max_traces=of.max_traces, file=file)
        return AnswerState(LocalRateLimiter(), in_memory)
    rates = PostgresRateLimiter(database)
    bounds = TraceBounds(of.max_traces, age_s=settings.state.max_trace_age_s)
    traces = PostgresTraceStore(database, bounds, file)
    return AnswerState(rates, traces, (database.close, traces.close, rates.close))


def open_seal(settings: Settings) -> MultiFernet | None:
    """Return what seals stored responses and reviews, None where the settings name no keys.

    Raises:
        SettingsInvalid: the file of keys cannot be read.
    """
    path = settings.state.responses_key_file
    return None if path is None else read_seal(path)


def open_responses(settings: Settings, database: Database | None) -> StoredResponses | None:
    """Open the stored responses, in the database or in the data folder; None where none are stored.

    Raises:
        SettingsInvalid: the file of keys cannot be read.
    """
    seal = open_seal(settings)
    if seal is None:
        return None
    own = SqliteDatabase(namespaces_dir(settings) / ".responses.sqlite")
    return StoredResponses(Records(own if database is None else PassageDatabase(database)), seal)


def job_queues(settings: Settings, database: Database | None, home: str) -> Callable[[JobLimits, Uploads], JobQueue]:
    """Return how to open the queue of jobs, in the database or in this process and its data folder.

    ``home`` names the folder of the namespaces that this server alone changes, "" where it can change none; jobs on
    shared namespaces run on any server.
    """
    shares = settings.retrieval.storage == "postgresql"

    def opened(limits: JobLimits, uploads: Uploads) -> JobQueue:
        if database is None or not home:
            return LocalJobQueue(limits, uploads.conceal, folder=JobFolder(namespaces_dir(settings)) if home else None)
        server = JobServer(home="" if shares else home, open_upload=uploads.open, conceal=uploads.conceal)
        return PostgresJobQueue(database, limits, server)

    return opened
