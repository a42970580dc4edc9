package compose

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// progress is how many sends each producer makes through a fault, so that every
// node is tried several times.
const progress = 9

// TestCompose: producers send keyed messages while containers are killed,
// paused and cut off. In the end every key is remembered at every node with
// one id, and every message is there once.
func TestCompose(t *testing.T) {
	if os.Getenv("SPOOLRAFT_TEST_COMPOSE") == "" {
		t.Skip("needs Docker with Compose: run it with make test-compose")
	}
	p := start(t)
	p.awaitReady()
	p.eventually("the queue created", func() (bool, string) {
		a, err := p.call("n1", http.MethodPut, queuePath, []byte(`{"dedupWindowSeconds":3600}`))
		return err == nil && (a.status == http.StatusCreated || a.status == http.StatusConflict), fmt.Sprintf("%d %s %v", a.status, a.body, err)
	})
	producers := []*producer{p.produce("a"), p.produce("b")}
	through := func() {
		t.Helper()
		for _, r := range producers {
			r.awaitProgress(progress)
		}
	}
	through()

	leader := p.leader()
	p.log("kill the leader, %s", leader)
	p.mustRun("docker", "kill", p.containers[leader])
	through()
	p.mustRun("docker", "start", p.containers[leader])
	p.awaitReady()

	leader = p.leader()
	p.log("pause the leader, %s", leader)
	p.mustRun("docker", "pause", p.containers[leader])
	through()
	p.mustRun("docker", "unpause", p.containers[leader])
	p.awaitReady()

	leader = p.leader()
	p.log("cut the leader, %s, off", leader)
	p.cut(leader, through)
	p.awaitReady()

	p.log("kill a majority")
	p.mustRun("docker", "kill", p.containers["n1"], p.containers["n2"])
	p.mustRun("docker", "start", p.containers["n1"])
	through()
	p.mustRun("docker", "start", p.containers["n2"])
	p.awaitReady()

	p.log("stop all, gently, and start again")
	p.run("restart", "--timeout", "30")
	p.awaitReady()
	through()

	ids := map[string]string{}
	for _, r := range producers {
		for key, id := range r.stop(t) {
			ids[key] = id
		}
	}
	p.log("%d keys sent", len(ids))
	p.checkRemembered(ids)
	p.checkStored(ids)
	p.log("checked")
}

// cut takes a container off its network. While it is off another container
// joins, so that it comes back with a new address whether the engine gives the
// lowest free one or the next.
func (p *project) cut(service string, meanwhile func()) {
	p.t.Helper()
	container := p.containers[service]
	network := p.name + "_cluster"
	address := func() string {
		return p.mustRun("docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
	}
	before := address()
	p.mustRun("docker", "network", "disconnect", network, container)
	squatter := p.mustRun("docker", "run", "--detach", "--network", network, "--no-healthcheck",
		p.name+":test", "dev", "--listen", "127.0.0.1:0")
	defer func() { p.mustRun("docker", "rm", "--force", "--volumes", squatter) }()
	meanwhile()
	p.mustRun("docker", "network", "connect", "--alias", service, network, container)
	after := address()
	p.log("%s is back at %s, was at %s", service, after, before)
	if after == before {
		p.t.Errorf("%s came back at its old address %s", service, before)
	}
}

// checkRemembered sends every key again, at a node for each.
func (p *project) checkRemembered(ids map[string]string) {
	p.t.Helper()
	n := 0
	for key, id := range ids {
		service := services[n%len(services)]
		n++
		a, err := p.call(service, http.MethodPost, queuePath+"/send", []byte(key), "Spooler-Dedup-String", key)
		if err != nil || a.status != http.StatusOK || a.header.Get("Spooler-Message-Id") != id {
			p.t.Errorf("%s again at %s: %d, id %q, want 200 and %q (%v)", key, service, a.status, a.header.Get("Spooler-Message-Id"), id, err)
		}
	}
}

// checkStored receives everything: each id once, with the payload of its key.
func (p *project) checkStored(ids map[string]string) {
	p.t.Helper()
	left := map[string]string{} // key by id
	for key, id := range ids {
		left[id] = key
	}
	if len(left) != len(ids) {
		p.t.Errorf("%d keys have only %d ids", len(ids), len(left))
	}
	for n := 0; ; n++ {
		service := services[n%len(services)]
		a, err := p.call(service, http.MethodPost, queuePath+"/recv?waitSeconds=0", nil)
		if err != nil {
			p.t.Fatalf("receive at %s: %v", service, err)
		}
		if a.status == http.StatusNoContent {
			break
		}
		id := a.header.Get("Spooler-Message-Id")
		key, ok := left[id]
		if a.status != http.StatusOK || !ok || key != string(a.body) {
			p.t.Fatalf("receive at %s: %d, id %q, payload %q; the key of it is %q", service, a.status, id, a.body, key)
		}
		delete(left, id)
		if b, err := p.call(service, http.MethodPost, "/v1/spools/default/ack", nil, "Spooler-Lease", a.header.Get("Spooler-Lease")); err != nil || b.status != http.StatusNoContent {
			p.t.Fatalf("ack of %s at %s: %d %v", id, service, b.status, err)
		}
	}
	if len(left) > 0 {
		var lost []string
		for id, key := range left {
			lost = append(lost, id+"="+key)
		}
		p.t.Errorf("%d messages are lost: %s", len(lost), strings.Join(lost, " "))
	}
}
