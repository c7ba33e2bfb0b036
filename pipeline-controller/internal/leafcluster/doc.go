/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package leafcluster reads the targets of Pipelines, in the management cluster and in others, from watches that last exactly as
// long as some Pipeline needs them.
//
// Each reconcile declares with Want all targets that its Pipeline has; what no Pipeline wants ends. Read tells what is known of a target
// and never waits: that a cluster is being connected, or can't be reached, is an answer. A change queues the Pipelines that want the
// target, since Clusters is a source of their controller.
//
// There are three things with a life of their own, each with one goroutine:
//
//   - A cluster is an object that stands for one: a GitopsCluster, a Cluster of Cluster API, a Secret, a ConfigMap. It finds the
//     kubeconfig, or what is as good, and finds it again from time to time.
//   - A connection is made from the content of a kubeconfig. It asks the API server for a sign of life at intervals. While there are some,
//     its watches run; when there have been none for too long, they end, and it is connected anew. Objects that lead to the same
//     kubeconfig share it, and another kubeconfig is another connection: what was seen through the one before says nothing of it.
//   - A watch follows the objects of one kind in one namespace, by get, list and watch on that kind there. In the cluster of the
//     controller, whose roles are ours to ship, it is one kind in all namespaces.
//
// Clusters, each cluster, each connection and each watch have a lock of their own, which guards the fields that say so and is never held
// while something is waited for. Locks are taken in this order, where connections, which has those in use, comes before a connection. What is
// called the other way holds none, or takes none.
//
// What was last seen of a target holds while nothing more is heard of it, for the time of grace. After that it is unknown, which keeps a
// promotion from going past it and never causes one. A definite answer counts at once where nothing was known before: that the credentials
// aren't accepted, that there is no such kind.
//
// Of an object no more is kept than its application.State. What leaf clusters send is bounded in size, and no text of theirs gets into a
// message, but for that of the Ready condition.
package leafcluster
