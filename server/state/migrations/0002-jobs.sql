-- Jobs that change namespaces, the turns of their keys, and their files.
-- depends: 0001-keys-rates-traces

-- "home" is the data folder whose namespaces a job changes, '' where the servers share them. "arguments" NULL: only the
-- process "origin" can do the work. Times are Unix time; "lease" is when another server may take over a running job.
CREATE TABLE arrowhead_jobs (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    kind text NOT NULL,
    namespace text NOT NULL,
    owner text NOT NULL,
    home text NOT NULL,
    origin text NOT NULL,
    arguments bytea,
    file text,
    file_bytes bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'queued',
    cancelling boolean NOT NULL DEFAULT false,
    created bigint NOT NULL,
    started bigint NOT NULL DEFAULT 0,
    finished bigint NOT NULL DEFAULT 0,
    stored timestamptz NOT NULL DEFAULT clock_timestamp(),
    runner text,
    lease timestamptz,
    ended timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    progress bytea,
    result bytea,
    error bytea
);

-- Whatever goes wrong, a namespace has one running job.
CREATE UNIQUE INDEX arrowhead_jobs_running ON arrowhead_jobs (home, namespace) WHERE state = 'running';

CREATE INDEX arrowhead_jobs_open ON arrowhead_jobs (owner, place) WHERE state IN ('queued', 'running');

CREATE INDEX arrowhead_jobs_ended ON arrowhead_jobs (ended) WHERE ended IS NOT NULL;

CREATE INDEX arrowhead_jobs_of_owner ON arrowhead_jobs (owner, place);

-- The number of the latest start of a key that has jobs.
CREATE SEQUENCE arrowhead_job_turn;

CREATE TABLE arrowhead_job_turns (owner text PRIMARY KEY, turn bigint NOT NULL);

CREATE TABLE arrowhead_job_files (
    job text NOT NULL,
    part integer NOT NULL,
    stored timestamptz NOT NULL DEFAULT clock_timestamp(),
    data bytea NOT NULL,
    PRIMARY KEY (job, part)
);
