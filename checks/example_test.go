package checks_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/checks"
	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/faults"
)

// A client works while replies get lost, and the checkers find nothing.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithNodes(0),
		cluster.WithFaults(faults.Plan{Seed: 1, Rules: []faults.Rule{{
			Match:       faults.Match{Verbs: []string{"create"}, Resources: []string{"configmaps"}},
			Probability: 0.5, Fault: faults.Fault{LoseReply: true}}}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Stop(context.Background())
	informers, err := checks.StartInformers(ctx, c.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"))
	if err != nil {
		fmt.Println(err)
		return
	}
	history, acknowledged := checks.NewHistory(), &checks.Acknowledged{}
	client := kubernetes.NewForConfigOrDie(acknowledged.Record(history.Record(c.RESTConfig())))
	for i := range 20 {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("made-", i)}}
		_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, obj, metav1.CreateOptions{})
		_, _ = client.CoreV1().ConfigMaps("default").Get(ctx, obj.Name, metav1.GetOptions{})
	}
	lost, err := acknowledged.Lost(ctx, c.RESTConfig())
	fmt.Println(checks.Linearizable(history.Operations(), time.Minute), lost, err)
	fmt.Println(informers.Equal(ctx, c.RESTConfig()))
	// Output:
	// <nil> [] <nil>
	// <nil>
}
