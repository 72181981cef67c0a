//! The PostgreSQL store on a real server.

mod contract;
mod opening;
mod server;
mod support;
