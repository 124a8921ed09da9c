// The HTTP server of src/bin/http.rs, by Go's net/http: prints where it listens.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
)

func main() {
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	body := []byte("Hello from a fiber.\n")
	fmt.Fprintln(os.Stderr, http.Serve(listener, http.HandlerFunc(
		func(answer http.ResponseWriter, _ *http.Request) {
			answer.Header().Set("Content-Type", "text/plain")
			answer.Write(body)
		})))
	os.Exit(1)
}
