//! QUIC servers and clients by quinn.
//!
//! `quinn-ends servers FOLDER ADDRESS:PORT[/SCENARIO] ...` answers `GET /bytes/N`.
//! `quinn-ends clients FOLDER` does what FOLDER/plan.txt says, and writes clients-quinn.csv.
//! The folder has cert.pem and key.pem; both sides write a qlog for each connection into it.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use quinn::{AckFrequencyConfig, ConnectionError, EndpointConfig, QlogConfig, TokioRuntime, TransportConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

type Failure = Box<dyn Error + Send + Sync>;
type Fails<T> = Result<T, Failure>;

const NAME: &str = "server.example";
const PROTOCOL: &[u8] = b"objects";
const UNKNOWN_VERSION: u32 = 0xff00_001d; // draft 29; the servers know version 1 only
const PAUSES: [f64; 5] = [0.2, 1.0, 5.0, 0.5, 2.5]; // seconds, within a connection
const PATIENCE: Duration = Duration::from_secs(10); // until a client tries TCP
const MOVED: u16 = 5000; // from the port of a client to the one it moves to

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fails<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = PathBuf::from(&arguments[2]);
    match arguments[1].as_str() {
        "servers" => servers(&folder, &arguments[3..]).await,
        _ => clients(&folder).await,
    }
}

/// Returns settings that log a connection; the title is the time of the log's begin.
fn transport(folder: &Path, side: &str, client: SocketAddr, server: SocketAddr) -> TransportConfig {
    let name = format!(
        "quinn-{side}-{}-{}-{}-{}.qlog",
        client.ip(),
        client.port(),
        server.ip(),
        server.port()
    );
    let file = File::options()
        .append(true)
        .create(true)
        .open(folder.join(name))
        .unwrap();
    let mut log = QlogConfig::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    log.start_time(Instant::now());
    log.title(Some(now.as_secs_f64().to_string()));
    log.writer(Box::new(file));
    let mut settings = TransportConfig::default();
    settings.qlog_stream(log.into_stream());
    settings
}

fn endpoint(address: SocketAddr, server: Option<quinn::ServerConfig>) -> Fails<quinn::Endpoint> {
    let mut settings = EndpointConfig::default();
    if server.is_some() {
        settings.supported_versions(vec![1]);
    }
    let socket = UdpSocket::bind(address)?;
    Ok(quinn::Endpoint::new(
        settings,
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

async fn servers(folder: &Path, addresses: &[String]) -> Fails<()> {
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem"))?;
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem"))?;
    let mut running = Vec::new();
    for each in addresses {
        let (address, scenario) = each.split_once('/').unwrap_or((each, ""));
        let mut provider = rustls::crypto::ring::default_provider();
        if scenario == "hello-retry" {
            // clients offer a key of another group first
            provider.kx_groups = vec![rustls::crypto::ring::kx_group::SECP384R1];
        }
        let mut tls = rustls::ServerConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.clone_key())?;
        tls.alpn_protocols = vec![PROTOCOL.into()];
        tls.max_early_data_size = u32::MAX;
        let crypto = Arc::new(quinn::crypto::rustls::QuicServerConfig::try_from(tls)?);
        let settings = quinn::ServerConfig::with_crypto(crypto);
        let made = endpoint(address.parse()?, Some(settings.clone()))?;
        running.push(tokio::spawn(serve(
            folder.to_owned(),
            made,
            settings,
            scenario.to_owned(),
        )));
    }
    for each in running {
        each.await?;
    }
    Ok(())
}

async fn serve(
    folder: PathBuf,
    own: quinn::Endpoint,
    mut settings: quinn::ServerConfig,
    scenario: String,
) {
    while let Some(incoming) = own.accept().await {
        if scenario == "retry" && !incoming.remote_address_validated() {
            let _ = incoming.retry();
            continue;
        }
        let (client, server) = (incoming.remote_address(), own.local_addr().unwrap());
        let mut connection = transport(&folder, "server", client, server);
        if scenario == "few-acks" {
            let mut rarely = AckFrequencyConfig::default();
            rarely.ack_eliciting_threshold(10u32.into());
            connection.ack_frequency_config(Some(rarely));
        }
        settings.transport_config(Arc::new(connection));
        if let Ok(connecting) = incoming.accept_with(Arc::new(settings.clone())) {
            tokio::spawn(answer(connecting));
        }
    }
}

/// Answers a connection's requests, those of early data as well.
async fn answer(connecting: quinn::Connecting) {
    let Ok((connection, _)) = connecting.into_0rtt() else {
        return;
    };
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            let sent = receive.read_to_end(usize::MAX).await?;
            let request = String::from_utf8_lossy(&sent);
            let size = request.trim().rsplit('/').next().unwrap_or("").parse()?;
            send.write_all(&vec![0; size]).await?;
            send.finish()?;
            Fails::Ok(())
        });
    }
}

/// A user of the plan: a line of it.
struct User {
    address: Ipv4Addr,
    scenario: String,
    server: SocketAddr,
    bytes: usize,
    objects: usize,
    times: u16,
    pause: f64,
    start: f64,
    first_port: u16,
}

impl User {
    fn read(line: &str) -> Fails<Option<Self>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            stack,
            address,
            scenario,
            server,
            port,
            bytes,
            objects,
            times,
            pause,
            start,
            first,
        ] = words[..]
        else {
            return Err("a line of the plan has eleven words".into());
        };
        let user = Self {
            address: address.parse()?,
            scenario: scenario.into(),
            server: format!("{server}:{port}").parse()?,
            bytes: bytes.parse()?,
            objects: objects.parse()?,
            times: times.parse()?,
            pause: pause.parse()?,
            start: start.parse()?,
            first_port: first.parse()?,
        };
        Ok((stack == "quinn").then_some(user))
    }
}

async fn clients(folder: &Path) -> Fails<()> {
    let mut file = File::create(folder.join("clients-quinn.csv"))?;
    writeln!(
        file,
        "user,port,server,server_port,scenario,offered_version,answered,zero_rtt,zero_rtt_accepted,moved_to"
    )?;
    let log = Arc::new(Mutex::new(file));
    let mut running = Vec::new();
    for line in std::fs::read_to_string(folder.join("plan.txt"))?.lines() {
        if let Some(user) = User::read(line)? {
            running.push(tokio::spawn(run(folder.to_owned(), user, log.clone())));
        }
    }
    for each in running {
        each.await?;
    }
    Ok(())
}

async fn run(folder: PathBuf, user: User, log: Arc<Mutex<File>>) {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap())
        .unwrap();
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.into()];
    if user.scenario == "long-hello" {
        // longer than a datagram, as with post-quantum keys
        let unknown = |k| format!("a-protocol-that-the-server-does-not-know-{k}").into_bytes();
        tls.alpn_protocols.extend((0..30).map(unknown));
    }
    tls.enable_early_data = user.scenario == "zero-rtt";
    let crypto = Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap());
    sleep(Duration::from_secs_f64(user.start)).await;
    for number in 0..user.times {
        let mut row = HashMap::new();
        let client = SocketAddr::from((user.address, user.first_port + number));
        let got = connection(&folder, &user, client, crypto.clone(), &mut row).await;
        let text = |name| row.get(name).map(String::as_str).unwrap_or("");
        let line = format!(
            "{},{},{},{},{},{},{},{},{},{}\n",
            user.address,
            client.port(),
            user.server.ip(),
            user.server.port(),
            user.scenario,
            text("offered_version"),
            u8::from(got.is_ok()),
            text("zero_rtt"),
            text("zero_rtt_accepted"),
            text("moved_to")
        );
        log.lock().unwrap().write_all(line.as_bytes()).unwrap();
        if got.is_err() {
            let _ = over_tcp(&user).await;
        }
        sleep(Duration::from_secs_f64(user.pause)).await;
    }
}

/// Fetches a connection's objects.
async fn connection(
    folder: &Path,
    user: &User,
    client: SocketAddr,
    crypto: Arc<quinn::crypto::rustls::QuicClientConfig>,
    row: &mut HashMap<&str, String>,
) -> Fails<()> {
    let own = endpoint(client, None)?;
    let connect = |version: u32| {
        let mut settings = transport(folder, "client", client, user.server);
        settings.allow_spin(user.scenario != "random");
        let mut known = quinn::ClientConfig::new(crypto.clone());
        known.transport_config(Arc::new(settings)).version(version);
        own.connect_with(known, user.server, NAME)
    };
    let offered = if user.scenario == "negotiation" {
        UNKNOWN_VERSION
    } else {
        1
    };
    row.insert("offered_version", format!("{offered:#x}"));
    let connecting = connect(offered)?;
    let (made, accepted) = match connecting.into_0rtt() {
        Ok((made, accepted)) => (made, Some(accepted)),
        Err(connecting) => match timeout(PATIENCE, connecting).await? {
            Err(ConnectionError::VersionMismatch) => (timeout(PATIENCE, connect(1)?).await??, None),
            made => (made?, None),
        },
    };
    row.insert("zero_rtt", u8::from(accepted.is_some()).to_string());
    for number in 0..user.objects {
        if number > 0 {
            sleep(Duration::from_secs_f64(PAUSES[number % PAUSES.len()])).await;
        }
        let (mut send, mut receive) = made.open_bi().await?;
        let is_upload = user.scenario == "upload";
        let (upload, mut left) = if is_upload { (user.bytes, 0) } else { (0, user.bytes) };
        send.write_all(&vec![0; upload]).await?;
        send.write_all(format!("GET /bytes/{left}\r\n").as_bytes())
            .await?;
        send.finish()?;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            let half = user.bytes / 2;
            let passes_half = left > half && left - chunk.bytes.len() <= half;
            left -= chunk.bytes.len();
            if user.scenario == "migrate" && number == 1 && passes_half {
                let port = client.port() + MOVED;
                own.rebind(UdpSocket::bind((user.address, port))?)?;
                row.insert("moved_to", port.to_string());
            }
        }
    }
    if let Some(accepted) = accepted {
        row.insert("zero_rtt_accepted", u8::from(accepted.await).to_string());
    }
    made.close(0u32.into(), b"");
    own.wait_idle().await;
    Ok(())
}

/// Fetches an object over TCP from the same server.
async fn over_tcp(user: &User) -> Fails<()> {
    let own = tokio::net::TcpSocket::new_v4()?;
    own.bind(SocketAddr::from((user.address, 0)))?;
    let mut made = own.connect(user.server).await?;
    let request = format!("GET /bytes/{} HTTP/1.1\r\n\r\n", user.bytes);
    made.write_all(request.as_bytes()).await?;
    made.shutdown().await?;
    made.read_to_end(&mut Vec::new()).await?;
    Ok(())
}
