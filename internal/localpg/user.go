package localpg

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// An account is who runs the server.
type account struct {
	uid, gid int
	switched bool // not who we are: we are root
}

// serverUser is this user, or for root another one that exists everywhere.
func serverUser() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return account{uid: uid, gid: gid, switched: true}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

// own gives the directory to the account, open for others to pass through.
func (a account) own(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if !a.switched {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

// wrap fills dir/bin with the programs that embedded-postgres calls, each a script
// that calls the real one in home/bin with env, as the account. runtime is the
// directory where embedded-postgres, as this user, leaves a file for initdb.
func (a account) wrap(dir, home, runtime string, env map[string]string) error {
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	for _, program := range []string{"initdb", "pg_ctl"} {
		var script strings.Builder
		script.WriteString("#!/bin/sh\ncd /\n")
		as := ""
		if a.switched {
			fmt.Fprintf(&script, "chown -R %d:%d %s\n", a.uid, a.gid, quote(runtime))
			as = fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups ", a.uid, a.gid)
		}
		if program == "pg_ctl" && len(env) > 0 { // as the account: what is preloaded must not start as root
			as += "env"
			for k, v := range env {
				as += " " + quote(k+"="+v)
			}
			as += " "
		}
		fmt.Fprintf(&script, "exec %s%s \"$@\"\n", as, quote(filepath.Join(home, "bin", program)))
		if err := os.WriteFile(filepath.Join(dir, "bin", program), []byte(script.String()), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var versionPattern = regexp.MustCompile(`(\d+)[.\d]*((beta|rc)\d+)?`)

// binaryVersion asks bin/postgres for its version, such as 17.4 or 19rc1.
func binaryVersion(bin string) (string, error) {
	out, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("no usable postgres there: %w", err)
	}
	v := versionPattern.FindString(string(out))
	if v == "" {
		return "", fmt.Errorf("postgres --version says %q", strings.TrimSpace(string(out)))
	}
	return v, nil
}

func major(version string) int {
	digits := regexp.MustCompile(`^\d+`).FindString(version)
	n, _ := strconv.Atoi(digits)
	return n
}
