"""Trains from batches of 64 in a session: a graph with placeholders, fed by feed_dict, and closed at the end."""
import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tf.compat.v1.set_random_seed(1)
rng = np.random.RandomState(0)
data = rng.rand(6400, 100).astype(np.float32)
labels = data[:, :50].sum(1, keepdims=True) - data[:, 50:].sum(1, keepdims=True)

x = tf.compat.v1.placeholder(tf.float32, shape=[None, 100], name="x")
y = tf.compat.v1.placeholder(tf.float32, shape=[None, 1], name="y")
with tf.compat.v1.variable_scope("layer"):
    weights = tf.compat.v1.get_variable("weights", shape=[100, 1], initializer=tf.compat.v1.zeros_initializer())
    bias = tf.compat.v1.get_variable("bias", shape=[1], initializer=tf.compat.v1.zeros_initializer())
loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) + bias - y))
train = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.02).minimize(loss)

dataset = tf.compat.v1.data.make_one_shot_iterator(
    tf.data.Dataset.from_tensor_slices((data, labels)).batch(64).repeat(4)).get_next()
with tf.compat.v1.Session() as sess:
    sess.run(tf.compat.v1.global_variables_initializer())
    losses = []
    while True:
        try:
            batch_x, batch_y = sess.run(dataset)
        except tf.errors.OutOfRangeError:
            break
        _, value = sess.run([train, loss], feed_dict={x: batch_x, y: batch_y})
        losses.append(value)
    sess.close()
print(f"steps {len(losses)} loss {np.mean(losses[:10]):.5f} -> {np.mean(losses[-10:]):.5f}")
