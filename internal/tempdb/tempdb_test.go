package tempdb

import "testing"

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	tests := []struct{ given, want string }{
		{"postgres://u:p@h:1/db?sslmode=disable", "postgres://u:p@h:1/temp?sslmode=disable"},
		{"postgres://u:p%2F@h", "postgres://u:p%2F@h/temp"},
		{"postgresql:///db?host=/tmp&dbname=other", "postgresql:///temp?host=%2Ftmp"},
		{"host=h dbname=db user=u", "host=h dbname=db user=u dbname=temp"},
	}
	for _, test := range tests {
		if got, err := withDatabase(test.given, "temp"); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.given, got, err, test.want)
		}
	}
}
