"""Write the record of an answer as files for reference managers, spreadsheets and word processors."""
