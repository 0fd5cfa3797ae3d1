"""Say what a site can add where a source has nothing for a question."""

from __future__ import annotations

from typing import Final

NO_COLLECTION: Final = (
    "There is no collection with papers or notes that this request may read, so nothing was searched. Add some under "
    "Collections on the page, or with arrowhead namespace add; arrowhead collections lists what can be had."
)
MORE_LITERATURE: Final = "Only what is on this machine was searched; arrowhead collections lists what can be added."
MORE_STATEMENTS: Final = "arrowhead graph import adds other graphs."
MORE_RECORDS: Final = "The gateway on this machine was searched; arrowhead gateway import adds NCBI's current files."
