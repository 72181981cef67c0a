//! Reading the messages of a request.

use tract_core::Draft;

use crate::drafts::Watch;
use crate::error::ImportError;
use crate::raw::Node;

/// Reads the messages of one request, one after the other.
pub(crate) trait Reader<'a> {
    /// Reads the next message into drafts.
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError>;

    /// Makes a draft of the parts that are held back until the end.
    fn end(&mut self) -> Option<Draft> {
        None
    }
}
