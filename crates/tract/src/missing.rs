//! Methods whose feature is off: calling one is a compile error that names the feature.

use std::convert::Infallible;

use crate::handle::Tract;

#[cfg(not(feature = "run"))]
#[diagnostic::on_unimplemented(
    message = "`Tract::agent` and `Tract::replay` need the feature `run`",
    label = "the feature `run` of the crate `tract` is off",
    note = "add it in Cargo.toml: tract = {{ .., features = [\"run\"] }}"
)]
pub trait RunFeature<'a> {}

#[cfg(not(feature = "tools"))]
#[diagnostic::on_unimplemented(
    message = "`Tract::pins` needs the feature `tools`",
    label = "the feature `tools` of the crate `tract` is off",
    note = "add it in Cargo.toml: tract = {{ .., features = [\"tools\"] }}"
)]
pub trait ToolsFeature<'a> {}

// `for<'a>` lets a bound that never holds be written: it is checked where the method is called.
impl Tract {
    /// Needs the feature `run`.
    ///
    /// ```compile_fail,E0277
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await.unwrap();
    /// tract.agent((), ());
    /// # })
    /// ```
    #[cfg(not(feature = "run"))]
    pub fn agent<M, T>(&self, _model: M, _tools: T) -> Infallible
    where
        for<'a> Self: RunFeature<'a>,
    {
        unreachable!("no type has the feature")
    }

    /// Needs the feature `run`.
    #[cfg(not(feature = "run"))]
    pub fn replay<R>(&self, _revision: R) -> Infallible
    where
        for<'a> Self: RunFeature<'a>,
    {
        unreachable!("no type has the feature")
    }

    /// Needs the feature `tools`.
    #[cfg(not(feature = "tools"))]
    pub fn pins(&self) -> Infallible
    where
        for<'a> Self: ToolsFeature<'a>,
    {
        unreachable!("no type has the feature")
    }
}
