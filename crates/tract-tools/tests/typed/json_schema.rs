//! `#[derive(tract_tools::JsonSchema)]` gives what the derive of `schemars` gives, without a
//! dependency on it.
#![allow(dead_code)]

/// Defines the same types twice, once with each derive.
macro_rules! twice {
    ($($item:item)*) => {
        mod own {
            use tract_tools::JsonSchema;
            $(#[derive(JsonSchema)] $item)*
        }
        mod original {
            $(#[derive(schemars::JsonSchema)] $item)*
        }
    };
}

twice! {
    /// A city.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct City {
        /// How it is called.
        #[schemars(length(min = 1))]
        pub(super) full_name: String,
        #[serde(default)]
        pub(super) near: Vec<City>,
        pub(super) kind: Option<Kind>,
        pub(super) at: Pair<f64>,
        pub(super) names: std::collections::BTreeMap<String, Pair<String>>,
    }

    /// One of them.
    #[serde(tag = "type", rename_all = "snake_case")]
    #[derive(serde::Deserialize)]
    pub(super) enum Kind {
        /// A town.
        Town { people: u32 },
        River,
    }

    #[derive(serde::Deserialize)]
    pub(super) struct Pair<T: Clone>(pub(super) T, pub(super) T);

    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    pub(super) struct Limits {
        pub(super) depth: u8,
        pub(super) name: String,
    }

    #[derive(serde::Deserialize)]
    #[serde(rename = "Root", transparent)]
    pub(super) struct Wrapper {
        pub(super) inner: Box<City>,
    }
}

#[test]
fn the_own_derive_gives_the_schema_of_the_original() {
    macro_rules! same {
        ($($name:ident),*) => {$(
            let own = schemars::schema_for!(own::$name);
            let original = schemars::schema_for!(original::$name);
            assert_eq!(own, original);
        )*};
    }
    same!(City, Kind, Limits, Wrapper);
    assert_eq!(schemars::schema_for!(own::Pair<u8>), schemars::schema_for!(original::Pair<u8>));
}
