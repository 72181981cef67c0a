//! Documents with several conversations: HAR files, and lists of requests.

use tract::import::HarExchanges;

use super::ImportRun;
use crate::failure::Outcome;
use crate::input::Document;
use crate::render::count;

impl ImportRun<'_, '_> {
    /// Imports the elements of a list, each as a conversation with its position as the line. The
    /// first one gets the replacements of the document.
    pub(super) async fn list(
        &mut self,
        stem: &str,
        elements: &[&str],
        mut replaced: Vec<String>,
    ) -> Outcome<()> {
        for (number, element) in elements.iter().enumerate() {
            let line = number + 1;
            let replaced = std::mem::take(&mut replaced);
            self.conversation(line, element, &format!("{stem}-{line}"), replaced).await?;
        }
        Ok(())
    }

    /// Imports the exchanges of a HAR file, each as a conversation.
    pub(super) async fn exchanges(&mut self, stem: &str, exchanges: HarExchanges) -> Outcome<()> {
        let lines = exchanges.lines.len();
        // The first exchange gets the report of the members that are left out of each.
        let mut left_out = self.reported(&exchanges.left_out);
        for (number, text) in exchanges.lines.into_iter().enumerate() {
            let line = number + 1;
            let Document { text, mut replaced, .. } = Document::new(line, text.into_bytes());
            replaced.append(&mut left_out);
            self.conversation(line, &text, &format!("{stem}-{line}"), replaced).await?;
        }
        if exchanges.others > 0 || lines == 0 {
            let others = count(exchanges.others, "entry");
            let verb = if exchanges.others == 1 { "is not a request" } else { "are not requests" };
            self.context.out.say(format_args!("{others} of the HAR file {verb} to a model"));
        }
        Ok(())
    }
}
