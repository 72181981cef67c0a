//! The functions in a store's schema, and their edition.
//!
//! They are not part of the format, because they contain no data. A store with an older edition
//! works. It gets the newest one when it is opened by a role that may replace functions.

use std::fmt::Write as _;

use tract_core::{StoreErrorKind, StoreResult};

use crate::error::{failed, new};
use crate::link::{Connector, Scope};
use crate::migrate;

const FUNCTIONS: &str = include_str!("functions.sql");
const SWEEP: &str = include_str!("sweep.sql");
const APPEND: [&str; 3] =
    [include_str!("append.sql"), include_str!("group.sql"), include_str!("chain.sql")];

/// The edition of the functions in this build. Builds that know another edition can call them too.
pub(crate) const EDITION: i32 = 8;

/// The edition of a store, kept in a comment on the function `apply`; absent in the first edition.
pub(crate) const FIND_EDITION: &str = "(SELECT coalesce(max(substring(\
     pg_catalog.obj_description(oid, 'pg_proc') FROM 'edition ([0-9]{1,9})')::integer), 1) \
     FROM pg_catalog.pg_proc \
     WHERE pronamespace = to_regnamespace('{s}') AND proname = 'apply')";

/// Returns the script that creates the functions, or replaces older ones.
pub(crate) fn script(partitions: u16, row_security: bool) -> String {
    let mut script = [FUNCTIONS, SWEEP].concat();
    let mut append = |cut: &str, own: &str| {
        for function in APPEND {
            script.push_str(&function.replace("{cut}", cut).replace("{own}", own));
        }
    };
    match row_security {
        // The policies are on the partitioned tables.
        true => append("", "\n    v_set := set_config('tract.repo', p_repo, true);"),
        false => (0..partitions).for_each(|n| append(&format!("_{n}"), "")),
    }
    let _ = writeln!(
        script,
        "DO $body$ DECLARE it oid; BEGIN \
         FOR it IN SELECT oid FROM pg_catalog.pg_proc \
         WHERE pronamespace = to_regnamespace('{{s}}') AND proname = 'apply' LOOP \
         EXECUTE format('COMMENT ON FUNCTION %s IS %L', it::regprocedure, 'edition {EDITION}'); \
         END LOOP; END $body$;"
    );
    script
}

/// Fails if the store has functions of an earlier edition; `lack` is the operation that they do not
/// support.
pub(crate) fn check(link: &Connector, op: &'static str, lack: &str) -> StoreResult<()> {
    if link.has_appends() {
        return Ok(());
    }
    let message = format!(
        "the store has functions of an earlier version, {lack}: open it once with this version as \
         the role that owns its tables"
    );
    Err(new(StoreErrorKind::Unsupported, op, message))
}

/// Installs the functions of this build in a store; `false` if this role may not do that.
pub(crate) async fn renew(
    link: &Connector,
    partitions: u16,
    row_security: bool,
) -> StoreResult<bool> {
    let mut script = script(partitions, row_security);
    if row_security {
        // Stores of earlier editions only protect the partitioned tables.
        script.push_str(&migrate::protect_partitions(partitions));
    }
    let script = link.sql(&script);
    let renewed = link
        .transaction("open", &Scope::Own, async |object| {
            // If two processes do this at once, the second one repeats it without effect.
            link.lock_schema("open", &object).await?;
            object.batch_execute(&script).await.map_err(|error| failed("open", error))
        })
        .await;
    match renewed {
        Ok(()) => Ok(true),
        Err(error) if error.kind == StoreErrorKind::ReadOnly => Ok(false),
        Err(error) => Err(error),
    }
}
