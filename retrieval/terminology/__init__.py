"""Names of diseases, phenotypes and drugs, from open vocabularies, with the source of each."""
