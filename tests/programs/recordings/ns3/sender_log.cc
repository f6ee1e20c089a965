// What each sender says of itself. ns-3 lets the class TcpGeneralTest read a socket.
#include "ns3/core-module.h"
#include "ns3/internet-module.h"

#include <fstream>
#include <map>

namespace ns3 {
class TcpGeneralTest {
 public:
  static Time Rto(Ptr<TcpSocketBase> s) { return s->m_rto.Get(); }
  static uint32_t Retries(Ptr<TcpSocketBase> s) { return s->m_dataRetrCount; }
  static uint32_t Window(Ptr<TcpSocketBase> s) { return s->m_rWnd.Get(); }
  static Ptr<TcpSocketState> Control(Ptr<TcpSocketBase> s) { return s->m_tcb; }
  static TcpSocket::TcpStates_t State(Ptr<TcpSocketBase> s) { return s->m_state.Get(); }
};
}  // namespace ns3

namespace giscope {
using namespace ns3;
using Read = TcpGeneralTest;

enum Limit { IDLE, BUSY, RECEIVE_WINDOW };

struct Account {
  Ptr<TcpSocketBase> socket;
  std::string ends;
  double since, shown;
  double busy, rwnd_limited;
  Limit limit;
  uint32_t retries;  // left before the socket gives up: one less after each RTO expiry
  unsigned long retransmissions, timeouts;
  bool over;
  int state;
};

inline double now() { return Simulator::Now().GetSeconds(); }

class Log {
 public:
  Log(Ptr<Node> server, const std::string& path, double start)
      : out(path), start(start), tcp(server->GetObject<TcpL4Protocol>()) {
    out << "t,user,sport,server,port,last,ca_state,rto,unacked,snd_cwnd,total_retrans,total_rto,"
           "busy_time,rwnd_limited\n";
    Simulator::Schedule(MilliSeconds(1), [this]() { find(); });
  }

  void end() {
    for (auto& pair : accounts) {
      auto& a = pair.second;
      update(a);
      if (!a.over && !a.socket->GetTxBuffer()->Size()) row(a, true);
    }
    out.close();
  }

 private:
  std::ofstream out;
  double start;
  Ptr<TcpL4Protocol> tcp;
  std::map<TcpSocketBase*, Account> accounts;

  void row(Account& a, bool last) {
    auto control = Read::Control(a.socket);
    uint32_t mss = std::max(control->m_segmentSize, 1u);
    uint32_t unacked = control->m_highTxMark.Get() - a.socket->GetTxBuffer()->HeadSequence();
    char line[512];
    snprintf(line, sizeof line, "%.6f,%s,%d,%d,%lld,%u,%u,%lu,%lu,%.0f,%.0f\n", start + now(),
             a.ends.c_str(), (int)last, (int)control->m_congState.Get(),
             (long long)Read::Rto(a.socket).GetMicroSeconds(), unacked / mss + (unacked % mss != 0),
             control->m_cWnd.Get(), a.retransmissions, a.timeouts, a.busy * 1e6,
             a.rwnd_limited * 1e6);
    out << line;
    a.shown = now();
  }

  void update(Account& a) {
    double passed = now() - a.since;
    a.since = now();
    if (a.limit != IDLE) a.busy += passed;
    if (a.limit == RECEIVE_WINDOW) a.rwnd_limited += passed;

    auto control = Read::Control(a.socket);
    auto buffer = a.socket->GetTxBuffer();
    uint32_t sent = control->m_nextTxSequence.Get() - buffer->HeadSequence();
    bool unsent = buffer->Size() > sent;
    bool window_is_smaller = Read::Window(a.socket) < control->m_cWnd.Get();
    a.limit = !buffer->Size() ? IDLE : unsent && window_is_smaller ? RECEIVE_WINDOW : BUSY;

    uint32_t retries = Read::Retries(a.socket);
    if (retries < a.retries) a.timeouts += a.retries - retries;
    a.retries = retries;

    int state = control->m_congState.Get();
    if (!a.over && (state != a.state || now() - a.shown >= 1)) row(a, false);
    a.state = state;
    auto phase = Read::State(a.socket);
    bool closed = phase == TcpSocket::CLOSED || phase == TcpSocket::TIME_WAIT ||
                  phase == TcpSocket::FIN_WAIT_2;
    if (!a.over && closed) {
      row(a, true);
      a.over = true;
    }
  }

  void find() {
    ObjectVectorValue sockets;
    tcp->GetAttribute("SocketList", sockets);
    for (auto i = sockets.Begin(); i != sockets.End(); ++i) {
      auto socket = DynamicCast<TcpSocketBase>(i->second);
      Address local, peer;
      if (!socket || accounts.count(PeekPointer(socket)) || socket->GetPeerName(peer)) continue;
      socket->GetSockName(local);
      auto from = InetSocketAddress::ConvertFrom(local), to = InetSocketAddress::ConvertFrom(peer);
      if (to.GetPort() != 0) watch(socket, from, to);  // 0: it listens
    }
    Simulator::Schedule(MilliSeconds(1), [this]() { find(); });
  }

  void watch(Ptr<TcpSocketBase> socket, InetSocketAddress from, InetSocketAddress to) {
    using Sent = Callback<void, Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>>;
    using Retransmitted = Callback<void, Ptr<const Packet>, const TcpHeader&, const Address&,
                            const Address&, Ptr<const TcpSocketBase>>;
    std::ostringstream ends;
    ends << to.GetIpv4() << "," << to.GetPort() << "," << from.GetIpv4() << "," << from.GetPort();
    auto key = PeekPointer(socket);
    accounts[key] = Account{socket, ends.str(), now(), now(), 0, 0, IDLE, Read::Retries(socket), 0,
                            0, false, 0};
    socket->TraceConnectWithoutContext(
        "Tx", Sent([this, key](auto...) { update(accounts[key]); }));
    socket->TraceConnectWithoutContext("Rx", Sent([this, key](auto...) {
      Simulator::ScheduleNow([this, key]() { update(accounts[key]); });
    }));
    socket->TraceConnectWithoutContext(
        "Retransmission", Retransmitted([this, key](auto...) { accounts[key].retransmissions++; }));
  }
};
}  // namespace giscope
