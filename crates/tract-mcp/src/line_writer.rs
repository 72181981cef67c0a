//! Messages out: a line each.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// The writing end of a pair of streams. Clones write to the same stream, one line at a time.
pub(crate) struct LineWriter<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for LineWriter<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// Writes a line and its end.
    pub(crate) async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        match self.0.lock().await.as_mut() {
            Some(writer) => {
                writer.write_all(&line).await?;
                writer.flush().await
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(crate) async fn close(&self) -> io::Result<()> {
        match self.0.lock().await.take() {
            Some(mut writer) => writer.shutdown().await,
            None => Ok(()),
        }
    }
}
