// Command etcd is etcd's own server: the main package of its module has no name of its own to build it by.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
