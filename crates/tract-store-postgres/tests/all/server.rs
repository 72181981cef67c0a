//! A PostgreSQL server for tests: one that `TRACT_POSTGRES_URL` names, else one of our own in a
//! temporary folder, which ends with the process that started it, however that ends. With
//! `TRACT_POSTGRES_URL=none` there is none, as on a machine without PostgreSQL.

#![allow(dead_code, reason = "shared by tests and benches, which each need a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A server that ends when this is dropped, or when this process dies: its keeper is a shell that
/// reads from us, and stops the server when the pipe is closed.
#[derive(Debug)]
pub(crate) struct Server {
    keeper: Child,
    folder: PathBuf,
    bin: PathBuf,
    port: u16,
}

/// Stops the server and removes the folder when the input ends.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for signal in INT QUIT KILL; do
    pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) || break
    kill -s "$signal" "$pid" 2>/dev/null || break
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$pid" 2>/dev/null || break
done
rm -rf "$1"
"#;

fn newest_bin() -> Option<PathBuf> {
    if std::env::var("TRACT_POSTGRES_URL").is_ok_and(|url| url == "none") {
        return None;
    }
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut packaged: Vec<PathBuf> = ["/usr/lib/postgresql", "/usr/local/lib/postgresql"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    packaged.sort();
    on_path
        .chain(packaged.into_iter().rev())
        .find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
}

/// Asks for a number of a user; `None` where there is no such user.
fn id(arguments: &[&str]) -> Option<String> {
    let output = Command::new("id").args(arguments).output().ok()?;
    let number = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(number)
}

/// The server refuses to run as root: then it runs as a user that systems have for such things.
fn user() -> Option<&'static str> {
    let is_root = id(&["-u"]).as_deref() == Some("0");
    ["postgres", "nobody"].into_iter().find(|user| is_root && id(&["-u", user]).is_some())
}

fn command(program: &Path) -> Command {
    match user() {
        None => Command::new(program),
        Some(user) => {
            let mut command = Command::new("setpriv");
            let group = format!("--regid={}", id(&["-g", user]).expect("it is a user"));
            command.args([format!("--reuid={user}"), group]);
            command.args(["--clear-groups", "--"]).arg(program);
            command
        }
    }
}

/// Gives a file or folder to the user that the server runs as.
pub(crate) fn give(path: &Path) {
    if let Some(user) = user() {
        run(Command::new("chown").arg("-R").arg(user).arg(path));
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}

impl Server {
    /// Makes a database cluster and starts its server; `None` when there is no server to start.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        let bin = newest_bin()?;
        let folder =
            tempfile::Builder::new().prefix("tract-postgres-").tempdir().expect("a folder");
        let folder = folder.keep();
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let server = Self { keeper, folder, bin, port };
        give(&server.folder);
        let data = server.data();
        run(command(&server.bin.join("initdb"))
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=tract"])
            .arg("--data-checksums")
            .arg("-D")
            .arg(&data)
            .current_dir(&server.folder));
        let own = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
             max_connections = 400\nshared_buffers = 128MB\nmax_wal_size = 2GB\n\
             max_locks_per_transaction = 256\n",
            server.folder.display()
        );
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(data.join("postgresql.conf"))
            .expect("initdb made it");
        file.write_all(own.as_bytes()).expect("written");
        settings.iter().for_each(|line| writeln!(file, "{line}").expect("written"));
        drop(file);
        server.launch();
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn launch(&self) {
        let log = self.folder.join("log");
        let end = Instant::now() + Duration::from_secs(60);
        // What a killed server left behind may hold its memory for a moment.
        loop {
            let started = command(&self.bin.join("pg_ctl"))
                .args(["-w", "-t", "30", "-l"])
                .arg(&log)
                .arg("-D")
                .arg(self.data())
                .arg("start")
                .current_dir(&self.folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("pg_ctl is next to initdb");
            if started.success() {
                return;
            }
            let log_text = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < end, "the server does not start: {log_text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends all of the server's processes with a signal that none can catch.
    pub(crate) fn kill(&self) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        let pid = pid.lines().next().expect("its first line").to_owned();
        let children = Command::new("pgrep").args(["-P", &pid]).output();
        let children = children.map(|output| output.stdout).unwrap_or_default();
        let children = String::from_utf8_lossy(&children).into_owned();
        let mut kill = Command::new("kill");
        kill.arg("-9").arg(&pid).args(children.split_whitespace());
        // Some may have ended by themselves meanwhile.
        let _ = kill.stderr(Stdio::null()).status();
    }

    /// Stops the server in an orderly way that does not wait for clients.
    pub(crate) fn stop(&self) {
        run(command(&self.bin.join("pg_ctl"))
            .args(["-w", "-m", "fast", "-D"])
            .arg(self.data())
            .arg("stop")
            .current_dir(&self.folder));
    }

    /// Lists the files of the server that have a text, its write-ahead log (`pg_wal`) apart.
    pub(crate) fn files_with(&self, text: &str) -> Vec<String> {
        let grep = Command::new("grep")
            .args(["-rlaF", "--exclude-dir=pg_wal", "-e", text])
            .arg(&self.folder)
            .output()
            .expect("grep is there");
        // It says 1 when there is none, 2 when a file went meanwhile.
        assert!(grep.status.code().is_some_and(|code| code <= 2), "{grep:?}");
        String::from_utf8_lossy(&grep.stdout).lines().map(str::to_owned).collect()
    }

    /// Returns the port on the loopback interface.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the url of its database, as the superuser `tract`.
    pub(crate) fn url(&self) -> String {
        format!("postgres://tract@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Returns the url of a server that all tests of this process share; `None`, and says what is left
/// out, where there is none.
pub(crate) fn shared() -> Option<&'static str> {
    static URL: OnceLock<Option<(String, Option<Server>)>> = OnceLock::new();
    let found = URL.get_or_init(|| match std::env::var("TRACT_POSTGRES_URL") {
        Ok(url) if url != "none" => Some((url, None)),
        _ => Server::start(&[]).map(|server| (server.url(), Some(server))),
    });
    match found {
        Some((url, _)) => Some(url),
        None => {
            left_out();
            None
        }
    }
}

/// Says what is left out without a server.
pub(crate) fn left_out() {
    let notice = "no PostgreSQL server was found, so this test on one is left out: install one \
                (`apt-get install postgresql`), or name one with TRACT_POSTGRES_URL";
    assert!(std::env::var_os("CI").is_none(), "{notice}");
    println!("{notice}");
}

/// Returns the name of a schema that no other test uses.
pub(crate) fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map(|since| since.as_nanos()).unwrap_or_default();
    format!("t{}_{nanos}_{n}", std::process::id())
}

/// Adds a schema to a url.
pub(crate) fn with_schema(url: &str, schema: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}schema={schema}")
}
