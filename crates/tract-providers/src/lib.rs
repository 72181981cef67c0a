//! OpenAI, Anthropic and Ollama: requests out, requests and replies in.
#![forbid(unsafe_code)]
