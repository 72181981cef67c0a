//! Version control for the context of LLM agents.
#![forbid(unsafe_code)]
