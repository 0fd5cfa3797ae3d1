-- Keys, buckets of rate limits and traces.
-- depends:

CREATE TABLE arrowhead_keys (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    digest text NOT NULL UNIQUE,
    name text NOT NULL,
    created timestamptz NOT NULL,
    expires timestamptz,
    revoked timestamptz,
    scopes jsonb NOT NULL
);

-- One row, locked by each change: changes come one after the other, and each has a number of its own.
CREATE TABLE arrowhead_key_changes (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), number bigint NOT NULL);

INSERT INTO arrowhead_key_changes (number) VALUES (0);

-- Levels are those at "filled", in seconds of Unix time.
CREATE TABLE arrowhead_buckets (
    owner text PRIMARY KEY,
    requests double precision,
    tokens double precision,
    filled double precision NOT NULL
);

CREATE TABLE arrowhead_traces (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    owner text NOT NULL,
    stored timestamptz NOT NULL DEFAULT clock_timestamp(),
    body bytea NOT NULL
);

CREATE INDEX arrowhead_traces_of_owner ON arrowhead_traces (owner, place);

CREATE INDEX arrowhead_traces_by_age ON arrowhead_traces (stored);
