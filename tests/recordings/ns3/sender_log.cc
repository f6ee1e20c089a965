// The sender's own account of its connections: ns-3 lets the class TcpGeneralTest read a socket.
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
  static Ptr<TcpSocketState> Tcb(Ptr<TcpSocketBase> s) { return s->m_tcb; }
  static TcpSocket::TcpStates_t State(Ptr<TcpSocketBase> s) { return s->m_state.Get(); }
};
}
namespace giscope {
using namespace ns3;
struct Account {
  Ptr<TcpSocketBase> socket; std::string ends; double since; double shown;
  double busy, rwnd; int limit; uint32_t retries; unsigned long retransmissions, timeouts; bool over; int state;
};
inline double now() { return Simulator::Now().GetSeconds(); }
class Log {
public:
  std::ofstream out; double start; Ptr<TcpL4Protocol> tcp; std::map<TcpSocketBase*, Account> accounts; Time step;
  void row(Account& a, int last) {
    auto s = a.socket; auto tcb = TcpGeneralTest::Tcb(s); auto buffer = s->GetTxBuffer();
    char line[512]; uint32_t mss = tcb->m_segmentSize;
    uint32_t unacked = (tcb->m_highTxMark.Get() - buffer->HeadSequence()) ;
    snprintf(line, sizeof line, "%.6f,%s,%d,%d,%lld,%u,%u,%lu,%lu,%.0f,%.0f\n", start + now(), a.ends.c_str(), last,
      (int)tcb->m_congState.Get(), (long long)TcpGeneralTest::Rto(s).GetMicroSeconds(), unacked / (mss ? mss : 1) + (unacked % (mss ? mss : 1) ? 1 : 0), tcb->m_cWnd.Get(),
      a.retransmissions, a.timeouts, a.busy * 1e6, a.rwnd * 1e6);
    out << line; a.shown = now();
  }
  void account(Account& a) {
    double t = now(), dt = t - a.since; a.since = t;
    if (a.limit > 0) a.busy += dt;
    if (a.limit == 2) a.rwnd += dt;
    auto s = a.socket; auto tcb = TcpGeneralTest::Tcb(s); auto buffer = s->GetTxBuffer();
    uint32_t size = buffer->Size(); int before = (int)tcb->m_congState.Get();
    uint32_t sent = tcb->m_nextTxSequence.Get() - buffer->HeadSequence();
    uint32_t unsent = size > sent ? size - sent : 0;
    if (!size) a.limit = 0;
    else if (!unsent) a.limit = 1;
    else a.limit = TcpGeneralTest::Window(s) < tcb->m_cWnd.Get() ? 2 : 1;
    uint32_t retries = TcpGeneralTest::Retries(s);
    if (retries < a.retries) a.timeouts += a.retries - retries;
    a.retries = retries;
    if (!a.over && (before != a.state || t - a.shown >= 1)) row(a, 0);
    a.state = before;
    auto st = TcpGeneralTest::State(s);
    if (!a.over && (st == TcpSocket::CLOSED || st == TcpSocket::TIME_WAIT || st == TcpSocket::FIN_WAIT_2)) { row(a, 1); a.over = true; }
  }
  void find() {
    ObjectVectorValue list; tcp->GetAttribute("SocketList", list);
    for (auto i = list.Begin(); i != list.End(); ++i) {
      auto s = DynamicCast<TcpSocketBase>(i->second);
      if (!s || accounts.count(PeekPointer(s))) continue;
      Address local, peer; s->GetSockName(local);
      if (s->GetPeerName(peer) != 0) continue;
      auto l = InetSocketAddress::ConvertFrom(local), p = InetSocketAddress::ConvertFrom(peer);
      if (p.GetPort() == 0) continue;  // it listens
      std::ostringstream ends; ends << p.GetIpv4() << "," << p.GetPort() << "," << l.GetIpv4() << "," << l.GetPort();
      TcpSocketBase* key = PeekPointer(s);
      accounts[key] = Account{s, ends.str(), now(), now(), 0, 0, 0, TcpGeneralTest::Retries(s), 0, 0, false, 0};
      s->TraceConnectWithoutContext("Tx", Callback<void, Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>>([this, key](Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>) { account(accounts[key]); }));
      s->TraceConnectWithoutContext("Rx", Callback<void, Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>>([this, key](Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>) { Simulator::ScheduleNow([this, key]() { account(accounts[key]); }); }));
      s->TraceConnectWithoutContext("Retransmission", Callback<void, Ptr<const Packet>, const TcpHeader&, const Address&, const Address&, Ptr<const TcpSocketBase>>([this, key](Ptr<const Packet>, const TcpHeader&, const Address&, const Address&, Ptr<const TcpSocketBase>) { accounts[key].retransmissions++; }));
    }
    Simulator::Schedule(step, [this]() { find(); });
  }
  void end() {
    for (auto& pair : accounts) { auto& a = pair.second; account(a); if (!a.over && !a.socket->GetTxBuffer()->Size()) row(a, 1); }
    out.close();
  }
};
static Log* log_of(Ptr<Node> server, std::string path, double start) {
  auto log = new Log(); log->out.open(path); log->start = start; log->step = MilliSeconds(1);
  log->out << "t,user,sport,server,port,last,ca_state,rto,unacked,snd_cwnd,total_retrans,total_rto,busy_time,rwnd_limited\n";
  log->tcp = server->GetObject<TcpL4Protocol>(); Simulator::Schedule(MilliSeconds(1), [log]() { log->find(); });
  return log;
}
}
