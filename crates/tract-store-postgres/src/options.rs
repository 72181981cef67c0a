//! Options for opening a store, and the parsing of its URL.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tract_core::{StoreErrorKind, StoreResult};

use crate::error::new;

/// Options for opening a store.
///
/// ```
/// use std::time::Duration;
/// use tract_store_postgres::PostgresOptions;
/// let options = PostgresOptions {
///     create: true,
///     pool_size: 16,
///     schema: Some("agents".to_owned()),
///     ..PostgresOptions::default()
/// };
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Creates the schema and its tables if they are missing; off by default.
    pub create: bool,
    /// The schema of the tables, `tract` by default; `?schema=` in the URL overrides it. Stores in
    /// different schemas of one database are independent. Opening fails with `Invalid` unless it is
    /// 1 to 63 lower-case letters, digits and `_`, not starting with a digit.
    pub schema: Option<String>,
    /// The maximum number of connections of this handle; 8 by default, and at least 1;
    /// `?pool_size=` in the URL overrides it. All handles together should have about twice as many
    /// as the server has cores.
    pub pool_size: usize,
    /// The time limit for connecting, and for waiting for a free connection: 10 seconds by
    /// default; `?connect_timeout=SECONDS` in the URL overrides it.
    pub connect_timeout: Duration,
    /// The time limit for the answer to a statement, after which its connection is closed: 60
    /// seconds by default; `?statement_timeout=SECONDS` in the URL overrides it. A whole write has
    /// this time, including waiting for earlier writes and retries, and the same time again for
    /// every 8 MiB of content.
    pub statement_timeout: Duration,
    /// Maximum wait of a write for another write of the same ref, after which it fails with `Busy`:
    /// 10 seconds by default; `?lock_timeout=SECONDS` in the URL overrides it.
    pub lock_timeout: Duration,
    /// Maximum time that a call is retried if the server is unavailable, restarts, or rolls it back
    /// because of concurrent transactions: 10 seconds by default; `?retry_for=SECONDS` in the URL
    /// overrides it.
    pub retry_for: Duration,
    /// The number of hash partitions (by repository) of the large tables when the store is
    /// created: 1 to 1,024, 16 by default; `?partitions=` in the URL overrides it. It cannot be
    /// changed later.
    pub partitions: u16,
    /// Whether a new store separates repositories by row-level security; off by default;
    /// `?row_security=on` in the URL does the same. An existing store keeps its own setting.
    pub row_security: bool,
    /// Caches prepared statements on each connection instead of sending the text each time. Off by
    /// default, because not all connection poolers support it.
    pub named_statements: bool,
    /// Accepts a server with `fsync`, `full_page_writes` or `synchronous_commit` off, and
    /// acknowledges writes that a power loss may revert. With `fsync` or `full_page_writes` off, a
    /// power loss may destroy all databases of the server. Off by default: such a server is
    /// rejected.
    pub unsafe_lose_on_power_loss: bool,
}

impl Default for PostgresOptions {
    /// Opens an existing store, durably, with up to eight connections.
    fn default() -> Self {
        Self {
            create: false,
            schema: None,
            pool_size: 8,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(10),
            retry_for: Duration::from_secs(10),
            partitions: 16,
            row_security: false,
            named_statements: false,
            unsafe_lose_on_power_loss: false,
        }
    }
}

fn schema_name(name: &str) -> StoreResult<String> {
    let fits = |(n, byte): (usize, u8)| {
        byte.is_ascii_lowercase() || byte == b'_' || (n > 0 && byte.is_ascii_digit())
    };
    if (1..=63).contains(&name.len()) && name.bytes().enumerate().all(fits) {
        Ok(name.to_owned())
    } else {
        let message = format!(
            "expected a schema of lower-case letters, digits and _, found {:?}",
            name.chars().take(80).collect::<String>()
        );
        Err(new(StoreErrorKind::Invalid, "open", message))
    }
}

/// The settings from a URL and the options combined.
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) options: PostgresOptions,
    pub(crate) schema: String,
    /// The file with the root certificates to trust.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "there is nothing to trust"))]
    pub(crate) root_certificates: Option<String>,
}

impl Target {
    /// Returns the server's address for messages, without user and password.
    pub(crate) fn server(&self) -> String {
        let ports = self.config.get_ports();
        let port = |n: usize| ports.get(n).or(ports.first()).copied().unwrap_or(5432);
        let host = |(n, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(n)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{}", path.display(), port(n)),
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        hosts.join(",")
    }
}

/// Parses seconds, which may have a fraction.
fn seconds(name: &str, value: &str) -> StoreResult<Duration> {
    let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| {
        let message = format!("expected seconds as {name} in the url, found something else");
        new(StoreErrorKind::Invalid, "open", message)
    })
}

/// Adds server settings from the environment that the URL lacks, as PostgreSQL's own programs do:
/// `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`.
fn add_environment(config: &mut Config, read: impl Fn(&str) -> Option<String>) -> StoreResult<()> {
    let read = |name| read(name).filter(|value| !value.is_empty());
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let hosts = read("PGHOST").unwrap_or_else(|| "localhost".to_owned());
        hosts.split(',').for_each(|host| _ = config.host(host));
    }
    if config.get_ports().is_empty()
        && let Some(ports) = read("PGPORT")
    {
        for port in ports.split(',') {
            config.port(port.parse().map_err(|_| {
                let message = format!("expected a number as PGPORT, found {ports:?}");
                new(StoreErrorKind::Invalid, "open", message)
            })?);
        }
    }
    if let (None, Some(user)) = (config.get_user(), read("PGUSER")) {
        config.user(user);
    }
    if let (None, Some(password)) = (config.get_password(), read("PGPASSWORD")) {
        config.password(password);
    }
    if let (None, Some(name)) = (config.get_dbname(), read("PGDATABASE")) {
        config.dbname(name);
    }
    Ok(())
}

fn number<N: FromStr>(name: &str, value: &str) -> StoreResult<N> {
    value.parse().map_err(|_| {
        let message = format!("expected a number as {name} in the url, found something else");
        new(StoreErrorKind::Invalid, "open", message)
    })
}

/// Rejects a user or password with characters that end the authority of a URL. The driver would
/// take a part of the password for the host and show it in errors.
fn check_userinfo(url: &str) -> StoreResult<()> {
    let Some((_, rest)) = url.split_once("://") else { return Ok(()) };
    let Some((userinfo, _)) = rest.rsplit_once('@') else { return Ok(()) };
    let Some(end) = userinfo.find(['/', '?', '#', '@']) else { return Ok(()) };
    let (authority, after) = userinfo.split_at(end);
    // `HOST:PORT/DATABASE?application_name=me@home` lacks a user; the `@` is in a parameter.
    let in_parameter = after.contains('?') && after.contains('=');
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = authority.rsplit_once(':').is_none_or(|(_, port)| is_port(port));
    if in_parameter && is_host && !after.starts_with('@') {
        return Ok(());
    }
    let message = "the password in the url has a character that must be percent-encoded: \
                   / as %2F, ? as %3F, # as %23, @ as %40";
    Err(new(StoreErrorKind::Invalid, "open", message))
}

/// Parses a PostgreSQL URL with our additional options. Errors never repeat its contents, because
/// it may contain a password.
pub(crate) fn target(url: &str, options: &PostgresOptions) -> StoreResult<Target> {
    check_userinfo(url)?;
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut options = options.clone();
    let (mut root_certificates, mut verified) = (None, false);
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("schema", name)) => options.schema = Some(name.to_owned()),
            Some(("partitions", value)) => options.partitions = number("partitions", value)?,
            Some(("pool_size", value)) => options.pool_size = number("pool_size", value)?,
            Some(("row_security", "on")) => options.row_security = true,
            Some((name @ "connect_timeout", value)) => {
                options.connect_timeout = seconds(name, value)?;
            }
            Some((name @ "statement_timeout", value)) => {
                options.statement_timeout = seconds(name, value)?;
            }
            Some((name @ "lock_timeout", value)) => options.lock_timeout = seconds(name, value)?,
            Some((name @ "retry_for", value)) => options.retry_for = seconds(name, value)?,
            Some(("sslrootcert", path)) => root_certificates = Some(path.replace("%2F", "/")),
            Some(("sslmode", "verify-full" | "verify-ca")) => verified = true,
            _ => rest.push(pair),
        }
    }
    let plain =
        if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    let mut config = Config::from_str(&plain).map_err(|error| {
        // The driver's message contains names of options, never their values.
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let why = source.unwrap_or_else(|| "it cannot be read".to_owned());
        let message =
            format!("expected postgres://USER@HOST:PORT/DATABASE, found a bad url: {why}");
        new(StoreErrorKind::Invalid, "open", message)
    })?;
    if verified || root_certificates.is_some() {
        config.ssl_mode(SslMode::Require);
    }
    add_environment(&mut config, |name| std::env::var(name).ok())?;
    config.connect_timeout(options.connect_timeout);
    if config.get_application_name().is_none() {
        config.application_name("tract");
    }
    if config.get_hosts().len() > 1 {
        // Refs are on the primary; a standby may lag behind.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    let schema = schema_name(options.schema.as_deref().unwrap_or("tract"))?;
    Ok(Target { config, options, schema, root_certificates })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_which_schema() {
        let options = PostgresOptions::default();
        let read =
            target("postgres://me:pw@db:6543/agents?schema=a_1&application_name=x", &options);
        let read = read.expect("a good url");
        assert_eq!((read.schema.as_str(), read.config.get_dbname()), ("a_1", Some("agents")));
        assert_eq!(read.config.get_application_name(), Some("x"));
        assert_eq!(read.config.get_ports(), [6543]);
        let read = target("postgres:///agents?host=/run/pg", &options).expect("a good url");
        assert_eq!(read.schema, "tract");
        let read = target("postgres://db/a?sslmode=verify-full", &options).expect("a good url");
        assert_eq!(read.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn a_password_that_would_be_read_as_a_host_is_refused_without_repeating_it() {
        for url in [
            "postgres://u:SE/CRET@SECRET@127.0.0.1:1/db",
            "postgres://u:SE@CRET@h/db",
            "postgres://u:SE?CRET@h/db",
            "postgres://u:SE#CRET@h/db",
        ] {
            let Err(error) = target(url, &PostgresOptions::default()) else {
                panic!("{url} is accepted");
            };
            let text = error.to_string();
            assert!(text.contains("percent-encoded") && !text.contains("CRET"), "{text}");
        }
        for url in [
            "postgres://u:a%40b@h/db",
            "postgres://h/db?application_name=me@home",
            "postgres://h:5/db?application_name=me@home",
        ] {
            assert!(target(url, &PostgresOptions::default()).is_ok(), "{url}");
        }
    }

    #[test]
    fn the_environment_says_what_the_url_leaves_out() {
        let read = |name: &str| match name {
            "PGHOST" => Some("db.example,other".to_owned()),
            "PGPORT" => Some("6543".to_owned()),
            "PGUSER" => Some("agent".to_owned()),
            "PGPASSWORD" => Some("secret".to_owned()),
            _ => None,
        };
        let config = |url: &str| {
            let mut config = Config::from_str(url).expect("a url");
            add_environment(&mut config, read).expect("it is sound");
            config
        };
        let bare = config("postgres:///agents");
        assert_eq!(bare.get_hosts().len(), 2);
        assert_eq!((bare.get_ports(), bare.get_user()), (&[6543][..], Some("agent")));
        assert_eq!(bare.get_password(), Some(&b"secret"[..]));
        let full = config("postgres://me:own@here:1/agents");
        assert_eq!((full.get_ports(), full.get_user()), (&[1][..], Some("me")));
        assert_eq!((full.get_password(), full.get_hosts().len()), (Some(&b"own"[..]), 1));
        let mut config = Config::new();
        add_environment(&mut config, |name| (name == "PGPORT").then(|| "many".to_owned()))
            .expect_err("no number");
    }

    #[test]
    fn a_url_may_say_how_long_things_may_take() {
        let url =
            "postgres://db/a?connect_timeout=2&statement_timeout=1.5&lock_timeout=3&retry_for=0";
        let read = target(url, &PostgresOptions::default()).expect("a good url");
        let options = read.options;
        let times = [options.connect_timeout, options.statement_timeout, options.lock_timeout];
        assert_eq!(times.map(|time| time.as_millis()), [2000, 1500, 3000]);
        assert_eq!(options.retry_for, Duration::ZERO);
        assert_eq!(read.config.get_connect_timeout(), Some(&Duration::from_secs(2)));
        for value in ["-1", "x", "inf", ""] {
            let url = format!("postgres://db/a?statement_timeout={value}");
            target(&url, &PostgresOptions::default()).err().expect(&url);
        }
    }

    #[test]
    fn bad_urls_are_refused_without_their_password() {
        let options = PostgresOptions::default();
        for url in [
            "postgres://me:secret@db/a?schema=No",
            "postgres://me:secret@db/a?schema=",
            "postgres://me:secret@db/a?schema=a;drop",
            "postgres://me:secret@db/a?partitions=many",
            "postgres://me:secret@db:port/a",
            "postgres://me:secret@db/a?nonsense=secret",
        ] {
            let error = target(url, &options).err().expect(url);
            assert_eq!(error.kind, StoreErrorKind::Invalid, "{url}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
