"""Tests of this folder share servers, which end with its last test."""
