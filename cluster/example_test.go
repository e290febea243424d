package cluster_test

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/clock"
	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/faults"
)

// A cluster in this process, with hollow nodes.
func ExampleStart() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithNodes(3))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop(ctx)
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		log.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range nodes.Items {
		fmt.Println(node.Name)
	}
	// Output:
	// node-1
	// node-2
	// node-3
}

// Containers with real pods, and a scheduler of one's own: the same test, by other options.
func ExampleStart_containers() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.WithNodes(2), cluster.WithImage(cluster.Scheduler, "mine:dev"),
		cluster.WithProgress(func(e cluster.Event) { log.Println(e.Step, e.Notice, e.Took) }))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop(ctx)
	if err := c.Node(1).Pause(ctx); err != nil {
		log.Fatal(err)
	}
	if err := c.Component(cluster.Scheduler).Kill(ctx); err != nil {
		log.Fatal(err)
	}
}

// Updates of Deployments meet conflicts, the same ones each time.
func ExampleWithFaults() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithFaults(faults.Plan{Seed: 1, Rules: []faults.Rule{{
		Match:       faults.Match{Verbs: []string{"update"}, Resources: []string{"deployments.apps"}},
		Probability: 0.5, Fault: faults.Fault{Status: 409},
	}}}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop(ctx)
}

// A month passes in seconds.
func ExampleCluster_Advance() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithClock(clock.New(time.Now())))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop(ctx)
	if err := c.Advance(ctx, 31*24*time.Hour); err != nil {
		log.Fatal(err)
	}
}

// Images are built before the first of many clusters starts.
func ExampleBuildImages() {
	report := func(text string) { log.Println(text) }
	refs, err := cluster.BuildImages(context.Background(), report, "kube-scheduler", "node")
	if err != nil {
		log.Fatal(err)
	}
	log.Println(refs["node"])
}
