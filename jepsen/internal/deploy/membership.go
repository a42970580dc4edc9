package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"time"
)

// operator is the client that changes the cluster, which can take a change of
// leader.
var operator = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Add implements Growable.
func (p *Process) Add() (string, error) {
	p.mu.Lock()
	name := "n" + strconv.Itoa(len(p.nodes)+1)
	p.mu.Unlock()
	n, err := p.newNode(name)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes = append(p.nodes, n)
	return name, nil
}

const (
	removeTimeout = 30 * time.Second
	// partingTime is how long a removed node has to hear of it and to end.
	partingTime = 10 * time.Second
	// removedCode is what a node ends with that was removed.
	removedCode = 6
	askAgain    = 200 * time.Millisecond
)

// Retire implements Growable. The node cannot be started meanwhile. Whether it was
// removed has to be known: a member must not lose its directory, and one that was
// removed must not be started on it.
func (p *Process) Retire(ctx context.Context, node string, forGood bool) (byItself bool, err error) {
	n := p.node(node)
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	n.mu.Lock()
	n.wanted = false // its end will be its own
	cmd, done := n.cmd, n.done
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := p.remove(ctx, node); err != nil {
		return false, errors.Join(err, n.launch(func() bool {
			n.wanted = true
			return true
		}))
	}
	if cmd != nil {
		if byItself, err = ends(cmd, done); err != nil {
			err = fmt.Errorf("%s: %w: %s", node, err, n.lastLogLine())
		}
	}
	err = errors.Join(err, n.kill(), n.handle(n.wipe))
	if forGood { // what others still want of it does nothing
		p.mu.Lock()
		n.dropped = true
		p.mu.Unlock()
		err = errors.Join(err, n.end())
	}
	return byItself, err
}

// ends waits for a removed node to end by itself. It may have been stopped or
// killed meanwhile, or be cut off or paused.
func ends(cmd *exec.Cmd, done <-chan struct{}) (byItself bool, err error) {
	select {
	case <-done:
	case <-time.After(partingTime):
		return false, nil
	}
	switch code := cmd.ProcessState.ExitCode(); code {
	case removedCode:
		return true, nil
	case 0, -1:
		return false, nil
	default:
		return false, fmt.Errorf("it was removed and ended with code %d, not %d", code, removedCode)
	}
}

// remove asks one node after the other until the node is certainly no member, or
// certainly one. An attempt whose answer is lost may be carried out later.
func (p *Process) remove(ctx context.Context, node string) error {
	instance, said, maybe := "", "no node answers", false
	for {
		for _, n := range p.present() {
			if n.name == node || !n.answers() {
				continue
			}
			if instance == "" {
				if instance = instanceOf(ctx, n.directURL(), node); instance == "" {
					continue
				}
			}
			status, body, err := ask(ctx, operator, http.MethodDelete, n.directURL()+"/v1/cluster/nodes/"+node+"?instance="+instance)
			if err != nil {
				body = err.Error()
			}
			said = fmt.Sprintf("%s says %d: %.200s", n.name, status, body)
			switch {
			case status == http.StatusNoContent, status == http.StatusNotFound:
				return nil
			case status == http.StatusConflict && !maybe:
				return fmt.Errorf("%w: %s", ErrRefused, said)
			case status != http.StatusConflict && status != http.StatusServiceUnavailable:
				maybe = true
			}
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return fmt.Errorf("%s is not removed: %s", node, said)
		}
	}
}

// instanceOf asks a node which knows that the cluster is well for the instance of
// another. It is "" while that is no member: it may become one yet.
func instanceOf(ctx context.Context, api, node string) string {
	status, body, err := ask(ctx, operator, http.MethodGet, api+"/v1/cluster")
	var o struct {
		Healthy bool
		Nodes   []struct{ Name, Instance, Role string }
	}
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &o) != nil || !o.Healthy {
		return ""
	}
	for _, n := range o.Nodes {
		if n.Name == node && n.Role != "joining" {
			return n.Instance
		}
	}
	return ""
}

// Transfer implements Growable.
func (p *Process) Transfer(ctx context.Context, node string) (answer string, err error) {
	for _, n := range p.present() {
		if n.answers() {
			status, _, err := ask(ctx, operator, http.MethodPost, n.directURL()+"/v1/cluster/transfer?to="+node)
			return strconv.Itoa(status), err
		}
	}
	return "", errors.New("no node answers")
}
