"""Write files, folders and SQLite databases that survive a crash."""
