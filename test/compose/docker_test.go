package compose

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var services = []string{"n1", "n2", "n3"}

// project is the cluster of this test.
type project struct {
	t       *testing.T
	began   time.Time
	name    string
	root    string   // of the repository
	compose []string // the command
	env     []string

	containers map[string]string // ids, by service

	mu   sync.Mutex
	urls map[string]string // by service
}

// start builds the image and brings the cluster up. It is removed when the test
// ends.
func start(t *testing.T) *project {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	p := &project{t: t, began: time.Now(), name: "spoolraft-test-" + hex.EncodeToString(id[:]), root: root, compose: composeCommand(t), containers: map[string]string{}, urls: map[string]string{}}
	image := p.name + ":test"
	p.env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+p.name, "SPOOLRAFT_IMAGE="+image,
		"SPOOLRAFT_PORT_1=0", "SPOOLRAFT_PORT_2=0", "SPOOLRAFT_PORT_3=0")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of the nodes:\n%s", p.try("logs", "--no-color", "--tail=200"))
		}
		t.Log(p.try("down", "--volumes", "--timeout", "5"))
		out, err := exec.Command("docker", "rmi", "--force", image).CombinedOutput()
		t.Log(strings.TrimSpace(string(out)), err)
	})
	p.mustRun("make", "image", "IMAGE="+image)
	p.run("up", "--detach")
	for _, service := range services {
		p.containers[service] = p.run("ps", "--quiet", service)
	}
	return p
}

// log says what happens, and when.
func (p *project) log(format string, args ...any) {
	p.t.Helper()
	p.t.Logf("%3.0fs "+format, append([]any{time.Since(p.began).Seconds()}, args...)...)
}

// composeCommand finds Compose, as a plugin or on its own, and a running engine.
func composeCommand(t *testing.T) []string {
	t.Helper()
	const install = "on Debian, as root: apt-get install --install-recommends docker-compose"
	if _, err := exec.LookPath("docker"); err != nil {
		t.Fatalf("there is no docker command here; %s", install)
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Fatalf("the Docker engine does not answer: start it, with `service docker start` for example, and be root or in the group docker\n%s", out)
	}
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Fatalf("there is no Compose here, neither as `docker compose` nor as `docker-compose`; %s", install)
	}
	return []string{"docker-compose"}
}

// command is compose with these arguments.
func (p *project) command(args ...string) *exec.Cmd {
	all := append(append([]string{}, p.compose[1:]...), args...)
	cmd := exec.Command(p.compose[0], all...)
	cmd.Dir, cmd.Env = p.root, p.env
	return cmd
}

func (p *project) run(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// try is run where a failure must not hide another.
func (p *project) try(args ...string) string {
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// mustRun runs another command in the repository.
func (p *project) mustRun(name string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = p.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// url is where a service's API is.
func (p *project) url(service string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if url := p.urls[service]; url != "" {
		return url, nil
	}
	out, err := exec.Command("docker", "port", p.containers[service], "8080/tcp").Output()
	address, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || address == "" {
		return "", fmt.Errorf("no port of %s: %w", service, err)
	}
	p.urls[service] = "http://" + address
	return p.urls[service], nil
}

// forget makes the next call look up the port again: each start may change it.
func (p *project) forget(service string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.urls, service)
}
