//! Protocol upgrades, such as WebSockets. They are forwarded unread.

use http::{HeaderMap, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Returns whether a request asks for a protocol upgrade.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONNECTION).iter().filter_map(|v| v.to_str().ok());
    let names_it = |value: &str| value.split(',').any(|v| v.trim().eq_ignore_ascii_case("upgrade"));
    headers.contains_key(header::UPGRADE) && values.any(names_it)
}

/// Copies bytes between both sides until one of them ends.
pub(crate) fn connect(client: OnUpgrade, upstream: OnUpgrade) {
    tokio::spawn(async move {
        let (Ok(client), Ok(upstream)) = tokio::join!(client, upstream) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
    });
}
