package httpapi

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"
)

//go:embed openapi.yaml
var openAPIDocument string

type healthJSON struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

type readyJSON struct {
	Ready   bool     `json:"ready"`
	Reason  string   `json:"reason,omitempty"`
	Missing []string `json:"missing,omitempty"` // members that are not heard of
}

// health says that the process answers, and nothing about the cluster.
func health(c *call) *problem {
	c.answerJSON(http.StatusOK, healthJSON{Status: "ok", Version: c.s.version})
	return nil
}

// ready says whether this node should get traffic.
func ready(c *call) *problem {
	reason := ""
	if c.s.draining.Err() != nil {
		reason = "this node is shutting down"
	} else if err := c.s.broker.Ready(); err != nil {
		reason = err.Error()
	}
	var missing []string
	if c.s.cluster != nil {
		missing = c.s.cluster.Missing()
	}
	if reason == "" {
		c.answerJSON(http.StatusOK, readyJSON{Ready: true, Missing: missing})
		return nil
	}
	c.outcome = outcomeNotReady
	c.set(echo.HeaderRetryAfter, "1")
	c.answerJSON(http.StatusServiceUnavailable, readyJSON{Reason: reason, Missing: missing})
	return nil
}

func openAPI(c *call) *problem {
	_ = c.answerBody(http.StatusOK, "application/yaml", openAPIDocument)
	return nil
}
