"""Sessions in a loop, each with a graph of its own and each closed: memory stays flat."""
import resource

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
batch = rng.rand(64, 100).astype(np.float32)
targets = batch[:, :1] - batch[:, 1:2]
losses, early = [], 0
for i in range(60):
    graph = tf.compat.v1.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 100])
        y = tf.compat.v1.placeholder(tf.float32, [None, 1])
        width = 200 + i % 3 * 100
        w1 = tf.compat.v1.get_variable("w1", [100, width], initializer=tf.compat.v1.random_normal_initializer(stddev=0.1, seed=1))
        w2 = tf.compat.v1.get_variable("w2", [width, 1], initializer=tf.compat.v1.random_normal_initializer(stddev=0.1, seed=2))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2) - y))
        train = tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss)
        sess = tf.compat.v1.Session(graph=graph)
        sess.run(tf.compat.v1.global_variables_initializer())
        for _ in range(5):
            _, value = sess.run([train, loss], {x: batch, y: targets})
        sess.close()
        losses.append(value)
    if i == 19:
        early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
late = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"sessions {len(losses)} more memory after 20 sessions {(late - early) // 1024} MiB loss {np.mean(losses):.5f} -> "
      f"{np.mean(losses[-3:]):.5f}")
