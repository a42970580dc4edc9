package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echoServer answers every line with itself.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

// world is a mesh with b behind a proxy, dialed as a.
func world(t *testing.T) (*Mesh, func() net.Conn) {
	t.Helper()
	m := New(1)
	t.Cleanup(m.Close)
	addr, err := m.Listen("b/peer", "b", echoServer(t), As("a"))
	if err != nil {
		t.Fatal(err)
	}
	return m, func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	got, err := bufio.NewReader(io.LimitReader(c, int64(len(want)+1))).ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Fatalf("heard %q (%v), want %q", got, err, want)
	}
}

// silent fails if anything arrives within a short time. A slow machine can
// only make it pass.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == io.EOF {
		t.Fatalf("read %d bytes (%v) over a cut link", n, err)
	}
}

func TestCutHoldsAndHealDelivers(t *testing.T) {
	for name, l := range map[string]Link{"there": {"a", "b"}, "back": {"b", "a"}} {
		m, dial := world(t)
		old := dial()
		say(t, old, "before")
		hear(t, old, "before")
		m.Set(l, Condition{Cut: true})
		say(t, old, "during")
		silent(t, old)
		fresh := dial()
		say(t, fresh, "hello")
		silent(t, fresh)
		m.Clear(l)
		hear(t, old, "during")
		hear(t, fresh, "hello")
		if t.Failed() {
			t.Fatalf("cutting %s", name)
		}
	}
}

func TestOtherLinksStayGood(t *testing.T) {
	m, dial := world(t)
	m.Set(Link{"c", "b"}, Condition{Cut: true})
	c := dial()
	say(t, c, "hello")
	hear(t, c, "hello")
}

func TestLatencyKeepsOrderAndDelays(t *testing.T) {
	m, dial := world(t)
	const latency = 30 * time.Millisecond
	m.Set(Link{"a", "b"}, Condition{Latency: latency, Jitter: latency, StallChance: 0.5, Stall: latency})
	c := dial()
	start := time.Now()
	for i := range 5 {
		say(t, c, fmt.Sprint(i))
	}
	for i := range 5 {
		hear(t, c, fmt.Sprint(i))
	}
	if took := time.Since(start); took < latency {
		t.Errorf("took %v, less than the latency", took)
	}
}

func TestAnswerDroppedAfterTheRequestWentThrough(t *testing.T) {
	received := make(chan string, 1)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		received <- line
		fmt.Fprintln(c, "done")
	}()
	m := New(1)
	defer m.Close()
	addr, err := m.Listen("b/http", "b", l.Addr().String(), As("clients"))
	if err != nil {
		t.Fatal(err)
	}
	m.Set(Link{"b", "clients"}, Condition{DropAnswers: 1})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	say(t, c, "please")
	if got := <-received; got != "please\n" {
		t.Errorf("the server received %q", got)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 10)); n > 0 || err == nil {
		t.Errorf("read %d bytes of a dropped answer (%v)", n, err)
	}
}

func TestResetEndsTheConnection(t *testing.T) {
	m, dial := world(t)
	m.Set(Link{"a", "b"}, Condition{ResetChance: 1})
	c := dial()
	say(t, c, "hello")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 10)); n > 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("read %d bytes (%v)", n, err)
	}
}

func TestClosedPortResets(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	m := New(1)
	defer m.Close()
	addr, err := m.Listen("b/peer", "b", l.Addr().String(), As("a"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return // reset before the dial was over
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("read ended with %v", err)
	}
}

func TestDialerIsFoundByItsProcess(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	remote, local := in.RemoteAddr().(*net.TCPAddr), in.LocalAddr().(*net.TCPAddr)
	me := ByOwner(func() map[int]string { return map[int]string{1 << 30: "other", os.Getpid(): "me"} })
	if got := me(remote, local); got != "me" {
		t.Errorf("the dialer is %q", got)
	}
	nobody := ByOwner(func() map[int]string { return map[int]string{1 << 30: "other"} })
	if got := nobody(remote, local); got != "" {
		t.Errorf("a stranger is %q", got)
	}
}

// TestOwnersOfManyConnections asks at the same time: each gets its own answer.
func TestOwnersOfManyConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	me := ByOwner(func() map[int]string { return map[int]string{os.Getpid(): "me"} })
	var asking sync.WaitGroup
	for range 50 {
		out, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		own, peer := out.LocalAddr().(*net.TCPAddr), out.RemoteAddr().(*net.TCPAddr)
		asking.Go(func() {
			if got := me(own, peer); got != "me" {
				t.Errorf("the owner of %v is %q", own, got)
			}
			if got := me(&net.TCPAddr{IP: own.IP, Port: 1}, peer); got != "" {
				t.Errorf("the owner of nothing is %q", got)
			}
		})
	}
	asking.Wait()
}
