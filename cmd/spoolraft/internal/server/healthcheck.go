package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/cli"
)

const healthcheckTimeout = 3 * time.Second

// healthcheckCommand asks a node beside it whether it is ready: an image
// without a shell has nothing else to ask with.
func healthcheckCommand() *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:     "healthcheck",
		Short:   "Ask the node of this container whether it is ready",
		Example: `  spoolraft healthcheck --http :8080`,
		Args:    cobra.NoArgs,
		Hidden:  true,
	}
	c.Flags().StringVar(&address, "http", DefaultHTTP, "where the node listens (env "+envName("http")+")")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if env := os.Getenv(envName("http")); env != "" && !c.Flags().Changed("http") {
			address = env
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return configErrorf("--http %q must be host:port or :port", address)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		if err := askReady("http://" + net.JoinHostPort(host, port) + "/readyz"); err != nil {
			return cli.Failure{Err: err}
		}
		return nil
	}
	return c
}

func askReady(url string) error {
	client := http.Client{Timeout: healthcheckTimeout}
	res, err := client.Get(url)
	if err != nil {
		return fmt.Errorf("the node does not answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return fmt.Errorf("the node is not ready: %s", body)
	}
	return nil
}
