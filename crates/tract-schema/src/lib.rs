//! Tool schemas as data: shapes, names, translation between providers.
#![forbid(unsafe_code)]
