package display

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Address is where a database is, as people write it, without user and password.
func Address(config *pgconn.Config) string {
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))) + "/" + config.Database
}

// ConnectReason says once why a server could not be reached. pgx tells of every address,
// with and without TLS; what the server itself has answered is what counts, else the last.
func ConnectReason(failed *pgconn.ConnectError) (reason string) {
	var answer *pgconn.PgError
	if errors.As(failed, &answer) {
		return fmt.Sprintf("%s: %s (SQLSTATE %s)", answer.Severity, answer.Message, answer.Code)
	}
	for line := range strings.Lines(failed.Unwrap().Error()) {
		reason = strings.TrimSpace(line)
	}
	return reason
}
