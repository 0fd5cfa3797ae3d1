#!/usr/bin/env bash
# Writes the servers' shared state (keys, rates, traces, jobs with their files) to a file, while they run:
#   deploy/scale-out/backup.sh state.dump
# The database is named by libpq's variables: PGHOST, PGUSER, PGDATABASE, and PGPASSFILE or PGPASSWORD_FILE, a file with
# the password alone. pg_dump must not be older than the server. The file has keys' digests, questions and documents.
set -euo pipefail
[ "$#" -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
if [ -n "${PGPASSWORD_FILE:-}" ]; then PGPASSWORD="$(cat "$PGPASSWORD_FILE")"; export PGPASSWORD; fi
umask 077
trap 'rm -f "$1.part"' EXIT
pg_dump --format=custom --no-owner --no-privileges --file="$1.part"
# A file that cannot be read back is no backup. The list is read to its end, as pg_restore fails where it cannot write.
pg_restore --list "$1.part" | grep ' TABLE DATA [^ ]* arrowhead_keys ' >/dev/null
mv "$1.part" "$1"
