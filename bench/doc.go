// Package bench measures pgid's Go side beside other libraries that make IDs, in a
// module of its own: what they need, the module pgid does not.
//
//	cd bench && go test -bench .
//
// The command in chart draws what «pgid bench --json» has measured.
package bench
