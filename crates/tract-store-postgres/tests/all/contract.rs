//! The contract, kept three ways.

use tract_store_postgres::PostgresOptions;
use tract_testkit::{Capability, Suite};

use crate::{server, support};

/// The server compresses, and no dictionary is trained.
const LACKS: [Capability; 1] = [Capability::Repacks];

fn plain(options: PostgresOptions) -> Option<Suite> {
    let url = server::shared()?;
    Some(Suite::new(move |folder| support::open_in(url, folder, &options)).lacks(LACKS))
}

fn tenant() -> Option<Suite> {
    let url = support::tenant_url(server::shared()?);
    let options = PostgresOptions { row_security: true, ..support::options() };
    Some(Suite::new(move |folder| support::open_in(&url, folder, &options)).lacks(LACKS))
}

/// As `store_suite!` does, but without a server there is nothing to run.
macro_rules! cases {
    ($($module:ident { $($name:ident $([$needs:ident])? $promise:literal)* })*) => {
        $($(
            #[test]
            fn $name() {
                if let Some(suite) = suite() {
                    let suite = suite.conversations(tract_testkit::data::recorded);
                    tract_testkit::assert_contract(stringify!($name), &suite);
                }
            }
        )*)*
    };
}

mod default {
    fn suite() -> Option<tract_testkit::Suite> {
        super::plain(crate::support::options())
    }
    tract_testkit::__contract! { [cases] }
}

mod named_statements {
    fn suite() -> Option<tract_testkit::Suite> {
        let options = crate::support::options();
        super::plain(super::PostgresOptions { named_statements: true, ..options })
    }
    tract_testkit::__contract! { [cases] }
}

mod row_security {
    fn suite() -> Option<tract_testkit::Suite> {
        super::tenant()
    }
    tract_testkit::__contract! { [cases] }
}
