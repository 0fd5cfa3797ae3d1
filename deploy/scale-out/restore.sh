#!/usr/bin/env bash
# Reads a file of backup.sh into an empty database, all of it or nothing; stop every server before:
#   deploy/scale-out/restore.sh state.dump
# The database is named as for backup.sh. A key that was revoked after the backup is valid again: revoke it again.
set -euo pipefail
[ "$#" -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
if [ -n "${PGPASSWORD_FILE:-}" ]; then PGPASSWORD="$(cat "$PGPASSWORD_FILE")"; export PGPASSWORD; fi
found="$(psql --no-psqlrc --tuples-only --no-align --command="SELECT count(*) FROM pg_tables WHERE tablename LIKE 'arrowhead\\_%'")"
if [ "$found" != 0 ]; then
    echo "this database has $found tables of Arrowhead already: restore into an empty one" >&2
    exit 1
fi
pg_restore --dbname="${PGDATABASE:?}" --no-owner --no-privileges --exit-on-error --single-transaction "$1"
