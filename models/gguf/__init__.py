"""Convert model files in llama.cpp's format (GGUF) to folders that every engine loads."""
