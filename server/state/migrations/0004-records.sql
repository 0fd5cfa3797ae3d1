-- Files, vector stores and stored responses, with what belongs to them.
-- depends: 0003-passages

CREATE TABLE arrowhead_records (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    id text NOT NULL,
    owner text NOT NULL,
    parent text NOT NULL,
    tag text NOT NULL,
    ref text NOT NULL,
    state text NOT NULL,
    created bigint NOT NULL,
    expires double precision,
    size bigint NOT NULL,
    body bytea NOT NULL,
    UNIQUE (kind, id)
);

CREATE INDEX arrowhead_records_below ON arrowhead_records (kind, parent, place);

CREATE INDEX arrowhead_records_of_owner ON arrowhead_records (kind, owner, place);

CREATE INDEX arrowhead_records_by_expiry ON arrowhead_records (expires) WHERE expires IS NOT NULL;
