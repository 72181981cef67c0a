//! The binary, run as people and scripts run it.
#![forbid(unsafe_code)]

// `kill -9` while importing and appending.
mod kill;

mod support;

// Agents that run, on loopback.
#[cfg(all(unix, feature = "run", feature = "mcp"))]
mod agents;
// Branches, tags, checkout, repositories.
mod branches;
// Catalogs of tools: selection, approval.
mod catalog;
// Models asked, on loopback.
#[cfg(all(unix, feature = "http"))]
mod chat;
// The contract for stores.
#[cfg(feature = "conformance")]
mod conformance;
// Titles, parents and the list of conversations.
mod conversations;
// Copies between stores.
mod copies;
// Remotes, fetch, pull, push, bundles.
mod moving;
// Merges whose conflicts are resolved.
mod merging;
// Commits picked, rebased, dropped, inserted.
mod rebasing;
// The editor that `edit` opens.
mod editor;
// Completions that a shell asks for; manual pages.
mod completions;
// Damage that is repaired in place.
mod repairing;
// Bytes that are deleted for good.
mod erasing;
// Every verb in a store without commits, and after the first import.
mod first_run;
// Exit codes and errors: every way in which input can be bad.
mod errors;
// Recordings that are written while they are imported.
#[cfg(all(unix, feature = "follow"))]
mod follow;
// Deleting unreachable objects.
mod gc;
// What `log --graph` draws, in color.
mod graph;
// Requests that miss the prompt cache.
mod misses;
// What recordings cost.
mod costs;
// Recorded requests, their answers, and what providers accept.
mod requests;
// Batches of requests: their results, alone and next to the requests.
mod batches;
// Recordings in: reuse, anomalies, refused lines.
mod imports;
// Recordings in a database on a server.
mod databases;
// Recordings that did not change since they were imported.
mod unchanged;
// Calls held against their tools; definitions linted and translated.
mod hydrate;
// Servers of tools behind a url, and approval.
#[cfg(all(feature = "http", feature = "mcp"))]
mod servers;
// Recorded conversations as an MCP server.
#[cfg(feature = "serve")]
mod serving;
// Conversations in a browser.
#[cfg(all(unix, feature = "view"))]
mod viewing;
// Usage, pending approvals, search and the window in a browser.
#[cfg(all(unix, feature = "view"))]
mod reports;
// The same in a real browser.
#[cfg(all(unix, feature = "view"))]
mod browser;
#[cfg(all(unix, feature = "view"))]
mod webdriver;
// Conversations in the terminal.
#[cfg(all(target_os = "linux", feature = "ui"))]
mod tty;
#[cfg(all(target_os = "linux", feature = "ui"))]
mod ui;
// Conversations as one HTML file.
#[cfg(all(unix, feature = "view"))]
mod html;
// Servers of tools that are programs.
#[cfg(all(unix, feature = "run", feature = "mcp"))]
mod stdio;
// The traffic of agents in.
#[cfg(all(unix, feature = "record"))]
mod recording;
// An upstream of HTTP/2 behind the proxy.
#[cfg(all(unix, feature = "record"))]
mod http2;
// The official SDKs behind the proxy.
#[cfg(all(unix, feature = "record"))]
mod sdks;
// Conversations for other tools.
mod formats;
// Sessions of agent tools in.
mod sessions;
// Half an emoji in databases of other tools.
mod damaged_text;
// Sessions in which a user went back.
mod rewinds;
// Signatures of tags.
mod signing;
// The shapes that scripts rely on.
mod json_shapes;
// The log on stderr.
#[cfg(all(unix, feature = "run", feature = "mcp"))]
mod logging;
// Pictures of the documentation.
mod pages;
mod picture;
// Output whose reader is gone, or whose disk is full.
mod pipes;

// `#n` in verbs that take a position.
#[cfg(all(target_os = "linux", feature = "ui"))]
mod positions;
mod prune;
// Databases of the Python original.
mod python;
// Tool turns, what waits to be decided, and why a message reads as it does.
mod results;
// The files of a store, and the paths to them.
#[cfg(unix)]
mod store_files;
// Streams: apply, export, interruption.
mod streams;
// What people read: `log`, `cat`, the pager.
mod reading;
// Text found in histories.
mod search;
// Text from outside on a terminal and in JSON.
mod terminal;
// Spans and metrics of commands, received on loopback.
#[cfg(all(unix, feature = "otel", feature = "run", feature = "mcp"))]
mod telemetry;
// Undo of whole commands, of one process and of several.
mod undo;
// Verbs one after another, as in a day's work; the demo.
mod walk;
