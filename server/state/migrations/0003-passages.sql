-- Namespaces that the servers share: documents, passages, the log of their changes, vectors and token vectors.
-- depends: 0002-jobs

-- "changes" is the number of the last change; a writer holds this row until its transaction ends, so numbers become
-- visible in their order. "own" lists the indices that each server derives for itself.
CREATE TABLE arrowhead_namespaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid uuid NOT NULL DEFAULT gen_random_uuid(),
    name text COLLATE "C" NOT NULL UNIQUE,
    own text[] NOT NULL,
    generation bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0
);

CREATE TABLE arrowhead_namespace_values (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    key text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (namespace, key)
);

CREATE TABLE arrowhead_documents (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    document_id text COLLATE "C" NOT NULL,
    provenance text NOT NULL,
    file_name text NOT NULL,
    title text NOT NULL,
    record text NOT NULL,
    digest bytea NOT NULL,
    types text NOT NULL,
    body text NOT NULL,
    spans text NOT NULL,
    content text NOT NULL,
    whole boolean NOT NULL,
    UNIQUE (namespace, document_id)
);

CREATE INDEX arrowhead_documents_in_order ON arrowhead_documents (namespace, number);

CREATE INDEX arrowhead_documents_record ON arrowhead_documents (namespace, record) WHERE record <> '';

CREATE INDEX arrowhead_documents_file ON arrowhead_documents (namespace, provenance) WHERE file_name <> '';

CREATE TABLE arrowhead_passages (
    namespace bigint NOT NULL,
    passage_id bigint NOT NULL,
    document bigint NOT NULL REFERENCES arrowhead_documents ON DELETE CASCADE,
    start integer NOT NULL,
    stop integer NOT NULL,
    section text NOT NULL,
    page integer NOT NULL,
    same bytea NOT NULL,
    PRIMARY KEY (namespace, passage_id),
    UNIQUE (namespace, same)
);

CREATE INDEX arrowhead_passages_document ON arrowhead_passages (document, start);

-- Duplicates of passages of other documents, stored for their provenance, and to replace one that is deleted.
CREATE TABLE arrowhead_passage_twins (
    namespace bigint NOT NULL,
    passage_id bigint NOT NULL,
    document bigint NOT NULL REFERENCES arrowhead_documents ON DELETE CASCADE,
    start integer NOT NULL,
    stop integer NOT NULL,
    section text NOT NULL,
    page integer NOT NULL,
    same bytea NOT NULL,
    PRIMARY KEY (namespace, passage_id)
);

CREATE INDEX arrowhead_passage_twins_document ON arrowhead_passage_twins (document);

CREATE INDEX arrowhead_passage_twins_same ON arrowhead_passage_twins (namespace, same);

-- The last change of each passage, for the indices that each server derives for itself.
CREATE TABLE arrowhead_passage_changes (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    passage_id bigint NOT NULL,
    number bigint NOT NULL,
    gone boolean NOT NULL,
    PRIMARY KEY (namespace, passage_id)
);

CREATE UNIQUE INDEX arrowhead_passage_changes_in_order ON arrowhead_passage_changes (namespace, number) INCLUDE (gone);

-- What the indices that all servers share still lack, or must delete.
CREATE TABLE arrowhead_index_journal (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    target text NOT NULL,
    passage_id bigint NOT NULL,
    gone boolean NOT NULL,
    PRIMARY KEY (namespace, target, passage_id)
);

CREATE TABLE arrowhead_sources (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    digest text NOT NULL,
    name text NOT NULL,
    reader text NOT NULL,
    done text NOT NULL,
    counts text NOT NULL,
    PRIMARY KEY (namespace, digest)
);

CREATE TABLE arrowhead_skipped_records (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    file text NOT NULL,
    line bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (namespace, file, line)
);

-- The rows of each index are a table of its own, arrowhead_vectors_ID, as pgvector's index has one dimension.
-- "centre" is subtracted from every vector; "recall" is NULL where it was not measured.
CREATE TABLE arrowhead_vector_indices (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    place text NOT NULL,
    dim integer NOT NULL,
    metric text NOT NULL,
    encoder text NOT NULL,
    centre bytea,
    generation bigint NOT NULL DEFAULT 0,
    live_rows bigint NOT NULL DEFAULT 0,
    measured_rows bigint NOT NULL DEFAULT 0,
    recall real,
    UNIQUE (namespace, place)
);

CREATE TABLE arrowhead_token_codes (
    namespace bigint NOT NULL REFERENCES arrowhead_namespaces ON DELETE CASCADE,
    passage_id bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (namespace, passage_id)
);

ALTER TABLE arrowhead_token_codes ALTER COLUMN data SET STORAGE EXTERNAL;
