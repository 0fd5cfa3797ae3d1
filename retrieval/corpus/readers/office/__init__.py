"""Read documents of Word, PowerPoint and Excel, and tell their packages from other zip archives."""
