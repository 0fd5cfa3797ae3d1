"""Handle what a message is besides a question: small talk, an emergency, a follow-up of earlier turns."""
