//! The PostgreSQL store on a real server.

mod collecting;
mod contract;
mod crashes;
mod damage;
mod erasing;
mod flips;
mod group;
mod opening;
mod portions;
mod proxy;
mod pushes;
mod searching;
mod server;
mod short;
mod support;
mod tenants;
#[cfg(feature = "tls")]
mod tls;
mod trips;
mod waiting;
mod wiping;
mod writers;
