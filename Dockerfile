# One target per image. The programs are static and built by the host's Go, so that an image is one file and no
# compiler has to be pulled. By hand, after `make build`:
#
#   docker build --target kube-scheduler --tag quintet/kube-scheduler:dev --file Dockerfile bin
#
# Targets do not build on each other: images/build gives Docker one target and the files that it needs at a time.

FROM scratch AS etcd
COPY etcd /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/etcd"]

FROM scratch AS kube-apiserver
COPY kube-apiserver /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-apiserver"]

FROM scratch AS kube-controller-manager
COPY kube-controller-manager /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-controller-manager"]

FROM scratch AS kube-scheduler
COPY kube-scheduler /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-scheduler"]

# Beside an API server that is not on a node, so that it reaches pods: webhooks, extension servers, the proxy verb.
FROM scratch AS node-routes
COPY node-routes /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/node-routes"]

# Runs where a cluster swaps the kube-proxy of its nodes for another; it needs the program nft, which the node has.
FROM quintet/node-base:dev AS kube-proxy
COPY kube-proxy /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-proxy"]

# Cluster DNS.
FROM scratch AS coredns
COPY coredns /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/coredns"]

# Serves what nodes and pods use.
FROM scratch AS metrics-server
COPY metrics-server /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/metrics-server"]

# A CSI driver for tests, in pods of the nodes.
FROM scratch AS csi-driver
COPY csi-driver /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/csi-driver"]

# Keeps images for the nodes.
FROM scratch AS registry
COPY registry /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/registry"]

# Gives Services of type LoadBalancer addresses, and routes what comes for them.
FROM scratch AS cloud-provider
COPY cloud-provider /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/cloud-provider"]

# Before several API servers.
FROM scratch AS api-balancer
COPY api-balancer /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/api-balancer"]

# Beside a member whose network or disk is disturbed.
FROM scratch AS fault-injector
COPY fault-injector /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/fault-injector"]

FROM scratch AS quintet
COPY quintet /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/quintet"]

FROM scratch AS pause
COPY pause /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/pause"]

FROM scratch AS testimage
COPY testimage /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/testimage"]

# A node: Docker engine, kubelet, kube-proxy, the pod network, and the images that every pod or test needs. images/node/base makes
# quintet/node-base. The engine's data is a volume, because overlay file systems do not stack.
FROM quintet/node-base:dev AS node
COPY kubelet kube-proxy network-policy volume-provisioner node-routes node-init /usr/local/bin/
COPY pause.tar testimage.tar coredns.tar /var/lib/quintet/images/
VOLUME /var/lib/docker
ENTRYPOINT ["/usr/local/bin/node-init"]
